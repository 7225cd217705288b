"""What fails in a turn of the leader is survived, unless it keeps failing (section 7)."""

from __future__ import annotations

import threading
import time
from typing import Any

import psycopg
import pytest

from alkstore import LeadershipLost
from alkstore.errors import DatabaseError
from alkstore.names import SCHEDULER_LOCK
from alkstore_postgres.scheduler import failures
from alkstore_postgres.scheduler.tick import Ticker
from alkstore_postgres.store import PostgresStore
from tests.support.cursors import Run, around_statements
from tests.support.leading import Leading, owner_of
from tests.support.schedules import ScheduleTable
from tests.support.waiting import wait_until


def test_every_error_at_every_statement_of_a_turn_is_survived(
    store: PostgresStore, table: ScheduleTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Field case B08: logged, rested upon, and the next good turn works."""
    store.schedule("s", "@every 1h", "q", 1)
    errors: list[BaseException] = [
        psycopg.OperationalError("injected"),
        KeyError("injected"),
        MemoryError("injected"),
    ]
    planned: list[tuple[int, BaseException]] = []
    count, expected = [0], [0]

    def faulty(run: Run) -> Run:
        def running(*args: Any, **options: Any) -> None:
            if planned and threading.current_thread().name == "alkstore leader":
                count[0] += 1
                if count[0] == planned[0][0]:
                    raise planned.pop(0)[1]
            run(*args, **options)

        return running

    around_statements(monkeypatch, faulty)
    monkeypatch.setattr(failures, "pause", lambda _failures: 0.01)
    with Leading(store) as leading:
        for number in range(1, 7):
            for error in errors:
                expected[0] = table.jobs() + 1
                count[0] = 0
                planned.append((number, error))
                table.shift("s", -1)
                store._parts.hub.wake_here(SCHEDULER_LOCK)
                wait_until(lambda: table.jobs() == expected[0] and not planned)
        assert leading.running
    assert set(table.ledger().values()) == {1}


def test_a_callback_that_raises_does_not_end_the_loop(
    store: PostgresStore, table: ScheduleTable
) -> None:
    store.schedule("s", "@every 1h", "q", 1)
    calls = [0]

    def callback(until: float) -> None:
        assert until > time.monotonic()
        calls[0] += 1
        if calls[0] <= 2:
            raise ZeroDivisionError

    leading = Leading(store)
    leading.led = callback  # type: ignore[method-assign]
    leading.start()
    wait_until(lambda: calls[0] >= 3)
    table.shift("s", -1)
    store._parts.hub.wake_here(SCHEDULER_LOCK)
    wait_until(lambda: table.jobs() == 1)
    leading.end()
    assert leading.error is None
    assert [type(one) for one in leading.failures] == [ZeroDivisionError] * 2


def test_a_leader_whose_ticks_keep_failing_steps_down(
    store: PostgresStore, table: ScheduleTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Field case B21: no lease is renewed for long while nothing is fired."""
    store.schedule("s", "@every 1h", "q", 1)
    table.shift("s", -1)

    def failing(*_args: Any, **_options: Any) -> Any:
        message = "injected"
        raise DatabaseError(message, sqlstate="XX000")

    monkeypatch.setattr(Ticker, "slice", failing)
    error = Leading(store, ttl=0.5).start().outcome()
    assert isinstance(error, LeadershipLost)
    assert owner_of(table) is None
