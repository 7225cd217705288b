"""The server ends the sessions of a store: while the application lives, no runner of it dies."""

from __future__ import annotations

import time
from typing import Any

import psycopg

from alkstore.traits import JobHandle
from alkstore_postgres import PostgresStore
from tests.support.sessions import kill_sessions
from tests.support.waiting import wait_until


def test_every_runner_survives_the_death_of_its_sessions(
    store: PostgresStore, connection: psycopg.Connection[Any], schema: str
) -> None:
    """Field case B39."""
    got: list[Any] = []

    def take(job: JobHandle) -> None:
        got.append(job.payload)

    runners = [
        store.start_worker("emails", take),
        store.start_outbox("events", take),
        store.start_scheduler(),
    ]
    wait_until(lambda: runners[2].state == "leading")
    for number in range(10):
        kill_sessions(connection, schema)
        with connection.transaction():
            store.enqueue_tx(connection, "emails", f"job {number}")
            store.outbox_enqueue_tx(connection, "events", f"message {number}")
        time.sleep(0.1)
    wanted = {f"{kind} {number}" for kind in ("job", "message") for number in range(10)}
    wait_until(lambda: set(got) >= wanted, 20)
    wait_until(lambda: [one.state for one in runners] == ["working", "working", "leading"])
    assert all(one.health().healthy for one in runners)
