"""The process's clocks are wrong: the leader goes by the store clock (section 7)."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest

from alkstore_postgres.scheduler import failures, held_lease, outlook, term, tick
from alkstore_postgres.store import PostgresStore
from tests.support.cursors import Run, around_statements
from tests.support.leading import Leading, late
from tests.support.schedules import ScheduleTable, grid, holes
from tests.support.waiting import wait_until

SECOND = timedelta(seconds=1)


class Clock:
    """A stand-in for the module `time` with a monotonic clock of the test's choice."""

    def __init__(self, read: Callable[[], float]) -> None:
        self.monotonic = read


def standing() -> float:
    return 1_000.0


def racing(clock: Iterator[int]) -> Callable[[], float]:
    return lambda: float(next(clock)) * 7_200.0


def jumping() -> Callable[[], float]:
    """Two hours forth and back at each reading."""
    state = [0]

    def read() -> float:
        state[0] += 1
        return time.monotonic() + (7_200.0 if state[0] % 2 else -7_200.0)

    return read


@pytest.mark.parametrize("kind", ["standing", "racing", "jumping"])
def test_no_clock_makes_the_loop_spin_or_fire_wrongly(
    *,
    store: PostgresStore,
    table: ScheduleTable,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    kind: str,
) -> None:
    """Field case B41: the process's clocks are wrong, the store clock decides."""
    clocks = {"standing": standing, "racing": racing(iter(range(10**9))), "jumping": jumping()}
    for module in (failures, held_lease, outlook, term, tick):
        monkeypatch.setattr(module, "time", Clock(clocks[kind]))
    store.schedule("s", "@every 1s", "s", 1)
    store.schedule("far", "@every 1h", "s", 1)
    statements = [0]

    def counting(run: Run) -> Run:
        def running(*args: Any, **options: Any) -> None:
            statements[0] += threading.current_thread().name == "alkstore leader"
            run(*args, **options)

        return running

    around_statements(monkeypatch, counting)
    began = time.monotonic()
    with Leading(store):
        wait_until(lambda: len(table.fired("s")) >= 3)
    elapsed = time.monotonic() - began
    turns_a_second = 20
    a_turn = 7
    assert 0 < statements[0] <= (elapsed + 1) * turns_a_second * a_turn
    assert len(caplog.records) < 20
    ledger = table.ledger()
    assert set(ledger.values()) == {1}
    assert not holes(ledger, "s", SECOND)
    assert min(late(store, "s")) >= timedelta(0)


def test_wall_clocks_that_are_wrong_by_minutes_change_nothing(
    store: PostgresStore, table: ScheduleTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Field case B29."""
    wall, seen = time.time, list[int]()
    store.schedule("s", "@every 1s", "s", 1)
    for error in (90.0, -90.0):
        monkeypatch.setattr(time, "time", lambda error=error: wall() + error)
        seen.append(len(table.fired("s")))
        with Leading(store):
            wait_until(lambda: len(table.fired("s")) > seen[-1])
    fired = table.fired("s")
    assert fired == grid(fired[0], SECOND, len(fired))
    assert min(late(store, "s")) >= timedelta(0)
