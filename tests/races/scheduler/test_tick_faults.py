"""A tick that dies anywhere loses no boundary and fires none twice.

The user's story: a leader is killed, or its connection is cut, in the middle of a tick. The
invariant: whatever the point, after the next tick each boundary has exactly one job (field
cases B16 and B123).
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from alkstore.errors import DatabaseError
from alkstore.names import SCHEDULER_LOCK
from alkstore_postgres.database.cursor import EngineCursor
from alkstore_postgres.database.database import Database
from alkstore_postgres.database.session import Session
from alkstore_postgres.lock.leases import Lease
from alkstore_postgres.scheduler.fires import Fires, JobsMissing
from alkstore_postgres.scheduler.tick import Ticker
from alkstore_postgres.store import PostgresStore
from tests.support.cursors import Run, around_statements
from tests.support.processes import ROOT
from tests.support.schedules import ScheduleTable, grid
from tests.support.waiting import wait_until

STATEMENTS = 7
"""limits, prove, due, missing, beyond, fire, wakes and outlook."""

POINTS = [(number, after) for number in range(1, STATEMENTS + 1) for after in (False, True)]
MINUTE = timedelta(minutes=1)


def ticker_of(store: PostgresStore) -> Ticker:
    parts = store._parts
    return Ticker(parts.database, parts.leases, parts.sender.channel, ttl=10.0)


def lease_of(store: PostgresStore) -> Lease:
    lease = store._parts.leases.acquire(SCHEDULER_LOCK, "me", 60.0)
    assert isinstance(lease, Lease)
    return lease


def at_statement(
    patch: pytest.MonkeyPatch, number: int, fault: Callable[[EngineCursor], None], *, after: bool
) -> list[str]:
    """Call *fault* before or after the statement of this *number*; return what was seen."""
    seen: list[str] = []

    def faulty(run: Run) -> Run:
        def running(cursor: EngineCursor, query: bytes, *args: Any, **options: Any) -> None:
            seen.append(query.decode())
            hit = len(seen) == number
            if hit and not after:
                fault(cursor)
            run(cursor, query, *args, **options)
            if hit and after:
                fault(cursor)

        return running

    around_statements(patch, faulty)
    return seen


def recover(store: PostgresStore, table: ScheduleTable) -> None:
    """Tick again; each boundary must have exactly one job."""
    ticker_of(store).tick(None)
    first = {name: min(b for n, b in table.ledger() if n == name) for name in ("a", "b")}
    expected = {(name, at) for name in first for at in grid(first[name], MINUTE, 3)}
    assert set(table.ledger()) == expected
    assert set(table.ledger().values()) == {1}
    assert {schedule.quarantine for schedule in store.schedules()} == {None}


@pytest.fixture
def due(store: PostgresStore, table: ScheduleTable) -> PostgresStore:
    """A store with two schedules that missed three boundaries each."""
    for name in ("a", "b"):
        store.schedule(name, "@every 60s", name, 1)
        table.shift(name, -150)
    return store


@pytest.mark.parametrize(("number", "after"), POINTS)
def test_an_error_at_any_statement(
    due: PostgresStore, table: ScheduleTable, number: int, after: bool
) -> None:
    def fail(_cursor: EngineCursor) -> None:
        message = "injected"
        raise psycopg.OperationalError(message)

    lease, ticker = lease_of(due), ticker_of(due)
    with pytest.MonkeyPatch.context() as patch:
        at_statement(patch, number, fail, after=after)
        with pytest.raises(DatabaseError):
            ticker.tick(lease)
        assert table.jobs() == 0
    recover(due, table)


BEFORE_FIRE = 5
"""So many statements come before the one that fires."""


@pytest.mark.parametrize(("number", "after"), POINTS)
def test_an_error_at_any_statement_of_a_slice_that_is_repeated_carefully(
    due: PostgresStore, table: ScheduleTable, number: int, after: bool
) -> None:
    """The first attempt finds jobs missing; the second one works under savepoints."""

    def fail(_cursor: EngineCursor) -> None:
        message = "injected"
        raise psycopg.OperationalError(message)

    store, stored = Fires.store, list[int]()

    def storing(fires: Fires, session: Session, *args: Any) -> None:
        stored.append(1)
        if len(stored) == 1:
            message = "0 jobs were stored for 6 boundaries"
            raise JobsMissing(message)
        store(fires, session, *args)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Fires, "store", storing)
        seen = at_statement(patch, BEFORE_FIRE + number, fail, after=after)
        with pytest.raises(DatabaseError):
            ticker_of(due).tick(lease_of(due))
        assert table.jobs() == 0
        assert len(seen) == BEFORE_FIRE + number
    recover(due, table)


@pytest.mark.parametrize("error", [KeyError, MemoryError, KeyboardInterrupt, SystemExit])
def test_any_exception_undoes_the_slice(
    due: PostgresStore, table: ScheduleTable, error: type[BaseException]
) -> None:
    def fail(_cursor: EngineCursor) -> None:
        raise error

    with pytest.MonkeyPatch.context() as patch:
        at_statement(patch, STATEMENTS, fail, after=True)
        with pytest.raises(error):
            ticker_of(due).tick(lease_of(due))
    assert table.jobs() == 0
    recover(due, table)


@pytest.mark.parametrize(("number", "after"), POINTS)
def test_a_terminated_backend_at_any_statement_and_before_the_commit(
    due: PostgresStore, table: ScheduleTable, number: int, after: bool
) -> None:
    def terminate(cursor: EngineCursor) -> None:
        pid = cursor.connection.info.backend_pid
        table.run("SELECT pg_terminate_backend(%s, 5000)", pid)

    lease, ticker = lease_of(due), ticker_of(due)
    with pytest.MonkeyPatch.context() as patch:
        seen = at_statement(patch, number, terminate, after=after)
        with pytest.raises(DatabaseError) as failure:
            ticker.tick(lease)
    assert len(seen) in (number, number + 1)
    assert failure.value.retryable
    assert table.jobs() == 0
    recover(due, table)


def test_a_commit_whose_answer_is_lost(due: PostgresStore, table: ScheduleTable) -> None:
    """The client cannot know whether it took place: the next tick reads the truth."""
    transaction = Database.transaction

    @contextmanager
    def deaf(database: Database) -> Iterator[Session]:
        with transaction(database) as session:
            yield session
        raise DatabaseError("the answer to the commit was lost", retryable=True)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Database, "transaction", deaf)
        with pytest.raises(DatabaseError):
            ticker_of(due).tick(lease_of(due))
    assert table.jobs() == 6
    recover(due, table)


CHILD = """
import os, signal, sys
import pytest
import alkstore_postgres
from alkstore_postgres.scheduler.tick import Ticker
from tests.support.cursors import around_statements

conninfo, schema, number = sys.argv[1], sys.argv[2], int(sys.argv[3])
store = alkstore_postgres.open(conninfo, schema, migrate=False)
parts = store._parts
ticker = Ticker(parts.database, parts.leases, parts.sender.channel, ttl=10.0)
ticker.slice  # everything is loaded
count = 0

def killing(run):
    def running(*args, **options):
        global count
        run(*args, **options)
        count += 1
        if count == number:
            os.kill(os.getpid(), signal.SIGKILL)
    return running

around_statements(pytest.MonkeyPatch(), killing)
ticker.tick(None)
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.parametrize("number", [*range(1, STATEMENTS), 99])
def test_a_killed_process_after_any_statement_and_after_the_commit(
    *,
    due: PostgresStore,
    table: ScheduleTable,
    connection: psycopg.Connection[Any],
    conninfo: str,
    schema: str,
    number: int,
) -> None:
    named = make_conninfo(conninfo, application_name=schema)
    child = subprocess.run(
        [sys.executable, "-c", CHILD, named, schema, str(number)],
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},
        cwd=ROOT,
        check=False,
        timeout=60,
    )
    assert child.returncode == -signal.SIGKILL
    # Until the server has noticed, its session holds the schedules, and a tick passes them by.
    sessions = "SELECT FROM pg_stat_activity WHERE application_name = %s"
    wait_until(lambda: not connection.execute(sessions, [schema]).fetchall())
    recover(due, table)
