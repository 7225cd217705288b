"""What the tests of the listener's hub share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import psycopg

from alkstore_postgres.wakes.channel import wake_channel
from alkstore_postgres.wakes.hub import WakeHub

MakeHub = Callable[..., WakeHub]


class Ear:
    """A sink that counts."""

    def __init__(self) -> None:
        self.heard: list[str] = []

    def __call__(self, name: str) -> None:
        self.heard.append(name)


def sessions(connection: psycopg.Connection[Any], schema: str) -> list[tuple[Any, ...]]:
    query = "SELECT pid, state, xact_start FROM pg_stat_activity WHERE application_name = %s"
    return connection.execute(query, [schema]).fetchall()


def kill(connection: psycopg.Connection[Any], schema: str) -> int:
    query = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = %s"
    return connection.execute(query, [schema]).rowcount


def send(connection: psycopg.Connection[Any], schema: str, name: str) -> None:
    connection.execute("SELECT pg_notify(%s, %s)", [wake_channel(schema), name])
