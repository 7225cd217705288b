"""A database call of the leader is stuck: a stop is obeyed, and the call is cut (section 7)."""

from __future__ import annotations

import threading
from typing import Any

import psycopg
import pytest

from alkstore_postgres.database.database import Database
from alkstore_postgres.store import PostgresStore
from tests.support.leading import QUICK, SLACK, Leading, owner_of
from tests.support.schedules import ScheduleTable
from tests.support.timing import in_time
from tests.support.waiting import wait_until


def waiting_sessions(table: ScheduleTable, schema: str) -> set[int]:
    """Return the sessions that wait for a lock of the store's; seen outside a transaction."""
    rows = table.run(
        "SELECT pid FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
        " AND position(%s in query) > 0",
        schema,
    )
    return {pid for (pid,) in rows}


def test_a_stop_is_obeyed_while_a_call_is_stuck_in_the_server(
    store: PostgresStore, table: ScheduleTable, conninfo: str, schema: str
) -> None:
    def end_one() -> float:
        leading = Leading(store, ttl=1.0).lead()
        with psycopg.connect(conninfo) as other:
            ScheduleTable(other, schema).run("LOCK TABLE {locks} IN ACCESS EXCLUSIVE MODE")
            wait_until(lambda: waiting_sessions(table, schema))
            took = leading.end()
        assert leading.error is None
        wait_until(lambda: owner_of(table) is None)
        return took

    in_time(end_one, QUICK + SLACK)


def test_a_stop_is_obeyed_while_no_connection_can_be_had(
    store: PostgresStore, table: ScheduleTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    connection = Database.connection

    def end_one() -> float:
        gate = threading.Event()
        reached = threading.Event()

        def stuck(database: Database) -> Any:
            if threading.current_thread().name == "alkstore leader":
                reached.set()
                gate.wait(30)
            return connection(database)

        leading = Leading(store, ttl=1.0).lead()
        with monkeypatch.context() as patched:
            patched.setattr(Database, "connection", stuck)
            assert reached.wait(10)
            took = leading.end()
        gate.set()
        assert leading.error is None
        wait_until(lambda: owner_of(table) is None)
        return took

    in_time(end_one, QUICK + SLACK)


def test_a_call_that_lasts_too_long_is_cut_and_the_loop_goes_on(
    store: PostgresStore, table: ScheduleTable, conninfo: str, schema: str
) -> None:
    store.schedule("s", "@every 1h", "q", 1)
    with Leading(store, ttl=1.0) as leading:
        with psycopg.connect(conninfo) as other:
            ScheduleTable(other, schema).run("LOCK TABLE {locks} IN ACCESS EXCLUSIVE MODE")
            wait_until(lambda: waiting_sessions(table, schema))
            first = waiting_sessions(table, schema)
            # Another connection than the first one asks by now: that one was given up.
            wait_until(lambda: waiting_sessions(table, schema) - first)
        table.shift("s", -1)
        wait_until(lambda: table.jobs() == 1)
        assert leading.running


def test_a_call_that_was_cut_waits_on_the_server_no_more(
    store: PostgresStore, table: ScheduleTable, conninfo: str, schema: str
) -> None:
    """Else there is one more waiting session with each call, for as long as the lock is held."""
    store.schedule("s", "@every 1h", "q", 1)
    with Leading(store, ttl=1.0) as leading:
        with psycopg.connect(conninfo) as other:
            ScheduleTable(other, schema).run("LOCK TABLE {schedules} IN ACCESS EXCLUSIVE MODE")
            seen: list[int] = []

            def waiting() -> set[int]:
                pids = waiting_sessions(table, schema)
                seen.extend(pids.difference(seen))
                return pids

            wait_until(lambda: waiting() and len(seen) >= 3, timeout=30)
            wait_until(lambda: waiting().isdisjoint(seen[:2]))
        table.shift("s", -1)
        wait_until(lambda: table.jobs() == 1)
        assert leading.running
