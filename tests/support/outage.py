"""A database that nobody can have for a while: by which fault, and who tries meanwhile."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from typing import Any

import psycopg
import pytest

from alkstore_postgres.embedded import EmbeddedServer

OUTAGE = float(os.environ.get("ALKSTORE_OUTAGE_SECONDS", "15"))
"""How long outages last in the tests, in seconds; `tests/postgres/test_minute_of_outage.py` has
the whole minute in every run."""

BACK = 5.0
"""How soon after an outage everybody is to be back, in seconds."""

Fault = Callable[[EmbeddedServer], Callable[[], None]]
"""Takes the database away; returns what brings it back."""

_CONNECTIONS = 12


class Attempts:
    """Counts who tries to connect.

    Args:
        patch: Undoes it when the test is over.

    Attributes:
        listener: Attempts of listeners.
        pool: Attempts of anybody else.
    """

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.listener = 0
        self.pool = 0
        connect: Any = psycopg.Connection.connect

        def counted(kind: Any, *args: Any, **options: Any) -> psycopg.Connection[Any]:
            if threading.current_thread().name == "alkstore-listener":
                self.listener += 1
            else:
                self.pool += 1
            connection: psycopg.Connection[Any] = connect.__func__(kind, *args, **options)
            return connection

        patch.setattr(psycopg.Connection, "connect", classmethod(counted))

    def reset(self) -> None:
        """Begin anew."""
        self.listener = self.pool = 0


def away(server: EmbeddedServer) -> Callable[[], None]:
    """Take the server down."""
    server.halt("immediate")
    return server.resume


def full(server: EmbeddedServer) -> Callable[[], None]:
    """Take every connection: ``too many connections`` for everybody else."""
    with psycopg.connect(server.url, autocommit=True) as admin:
        admin.execute("ALTER SYSTEM SET superuser_reserved_connections = 0")
        admin.execute(f"ALTER SYSTEM SET max_connections = {_CONNECTIONS}")
    server.halt("fast")
    server.resume()
    hogs: list[psycopg.Connection[Any]] = []
    raw = psycopg.pq.PGconn.connect
    while len(hogs) < _CONNECTIONS:
        connection = raw(server.url.encode())
        if connection.status != psycopg.pq.ConnStatus.OK:
            # Whoever was there first is sent away.
            if not hogs:
                continue
            with psycopg.Cursor(hogs[0]) as cursor:
                cursor.execute(
                    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                    " WHERE backend_type = 'client backend' AND NOT pid = ANY (%s)",
                    [[hog.info.backend_pid for hog in hogs]],
                )
            continue
        hog = psycopg.Connection(connection)
        hog.autocommit = True
        hogs.append(hog)

    def release() -> None:
        for hog in hogs:
            hog.close()

    return release
