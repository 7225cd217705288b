"""A runner is stopped while a database call of it is stuck.

The user's story: a migration holds a lock on the tables for minutes, and meanwhile the program is
told to end. A call cannot be interrupted from inside; so whoever stops a runner is told the truth
about it, and the log has no failures of something that is over.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pytest
from psycopg import sql

from alkstore.stop_token import StopToken
from alkstore_postgres import PostgresStore
from tests.support.leading import owner_of
from tests.support.schedules import ScheduleTable
from tests.support.timing import Stopwatch, in_time
from tests.support.waiting import wait_until


class Migration:
    """Holds the tables of a schema.

    Args:
        connection: Looks at what waits for them.
        blocker: The session that holds them.
        schema: Whose tables they are.
    """

    def __init__(
        self,
        connection: psycopg.Connection[Any],
        blocker: psycopg.Connection[Any],
        schema: str,
    ) -> None:
        self._connection = connection
        self._blocker = blocker
        self._schema = schema

    def begin(self, *tables: str) -> None:
        """Hold *tables* until `end`."""
        names = sql.SQL(", ").join(sql.Identifier(self._schema, table) for table in tables)
        self._blocker.execute(sql.SQL("LOCK TABLE {} IN ACCESS EXCLUSIVE MODE").format(names))

    def end(self) -> None:
        """Let go of them."""
        self._blocker.rollback()

    def waiting(self) -> list[int]:
        """Return the sessions that wait for them."""
        rows = self._connection.execute(
            "SELECT pid FROM pg_stat_activity"
            " WHERE wait_event_type = 'Lock' AND position(%s in query) > 0",
            [self._schema],
        ).fetchall()
        return [pid for (pid,) in rows]

    def kill_who_waits(self) -> None:
        """End the sessions that wait for them."""
        self._connection.execute("SELECT pg_terminate_backend(unnest(%s))", [self.waiting()])


@pytest.fixture
def table(store: PostgresStore, connection: psycopg.Connection[Any], schema: str) -> ScheduleTable:
    """Return the tables of the scheduler."""
    del store  # it has made the schema
    return ScheduleTable(connection, schema)


@pytest.fixture
def migration(
    conninfo: str, connection: psycopg.Connection[Any], schema: str
) -> Iterator[Migration]:
    """Return a migration that has not begun yet."""
    with psycopg.connect(conninfo) as blocker:
        one = Migration(connection, blocker, schema)
        yield one
        one.end()


def loops() -> list[threading.Thread]:
    """Return the threads of leader loops."""
    return [one for one in threading.enumerate() if one.name == "alkstore leader"]


def test_a_scheduler_whose_call_is_under_way_has_not_ended(
    store: PostgresStore, table: ScheduleTable, migration: Migration
) -> None:
    """Contract, section 11."""
    store.schedule("s", "@every 1s", "q", 1)
    scheduler = store.start_scheduler()
    wait_until(lambda: scheduler.state == "leading")
    migration.begin("schedules")
    wait_until(migration.waiting)
    began = time.monotonic()
    with Stopwatch() as watch:
        assert not scheduler.stop(0.5)
    assert time.monotonic() - began >= 0.5
    assert watch.seconds < 2.5
    health = scheduler.health()
    assert health.state != "stopped"
    assert health.reason == "it is stopping"
    assert not scheduler.join(0.1)
    assert owner_of(table) is not None
    stopped: list[bool] = []
    stopping = threading.Thread(target=lambda: stopped.append(scheduler.stop(10)))
    stopping.start()
    migration.end()
    stopping.join(15)
    assert stopped == [True]
    assert owner_of(table) is None
    assert scheduler.state == "stopped"
    assert scheduler.health().reason == "it was stopped"
    assert loops() == []


def test_a_scheduler_is_started_anew_while_the_old_one_is_stuck(
    store: PostgresStore, migration: Migration
) -> None:
    store.schedule("s", "@every 1s", "q", 1)
    first = store.start_scheduler()
    wait_until(lambda: first.state == "leading")
    migration.begin("schedules")
    wait_until(migration.waiting)
    assert not first.stop(0)
    second = store.start_scheduler()
    assert second is not first
    assert store.start_scheduler() is second
    wait_until(lambda: second.state == "standby")
    migration.end()
    assert first.join(10)
    wait_until(lambda: second.state == "leading")


def test_a_leader_loop_lets_its_caller_go_at_once_all_the_same(
    store: PostgresStore, table: ScheduleTable, migration: Migration
) -> None:
    """Contract, section 7: within 100 ms of the stop."""
    store.schedule("s", "@every 1s", "q", 1)

    def stop_it() -> float:
        stop = StopToken()
        leading = threading.Thread(target=store.run_schedules, args=(stop,))
        leading.start()
        migration.begin("schedules")
        wait_until(migration.waiting)
        began = time.monotonic()
        stop.cancel()
        leading.join(10)
        took = time.monotonic() - began
        migration.end()
        wait_until(lambda: not loops())
        assert owner_of(table) is None
        return took

    in_time(stop_it, 0.15)


def test_a_closed_store_is_quiet_whatever_its_calls_come_to(
    *,
    open_store: Callable[..., PostgresStore],
    migration: Migration,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Contract, section 11: closing stops all runners, quietly."""
    caplog.set_level(logging.INFO, "alkstore")
    store = open_store()
    store.schedule("s", "@every 1s", "q", 1)
    scheduler = store.start_scheduler()
    wait_until(lambda: scheduler.state == "leading")
    migration.begin("schedules", "jobs")
    worker = store.start_worker("emails", lambda _job: None)
    wait_until(lambda: len(migration.waiting()) == 2)
    with Stopwatch() as watch:
        store.close()
    assert watch.seconds < 9
    assert loops()
    migration.kill_who_waits()
    assert scheduler.join(10)
    assert worker.join(10)
    assert [one.getMessage() for one in caplog.records if one.levelname == "ERROR"] == []
    assert [one.getMessage() for one in caplog.records if one.exc_info] == []
    assert "trying again" not in caplog.text
