"""A schedule's row that somebody damaged by hand is set aside, and no other waits for it."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import pytest

from alkstore import ScheduleQuarantined, UnknownSchedule
from alkstore.memory import ManualClock, MemoryStore
from alkstore.memory.clock import LAST

NAIVE = datetime(2020, 1, 1)  # noqa: DTZ001 - what somebody without a zone in mind writes

DAMAGE = [
    ("spec", "@hourly"),
    ("spec", None),
    ("queue", ""),
    ("queue", "__alkstore_outbox:x"),
    ("payload", None),
    ("payload", "text"),
    ("expires", "1 hour"),
    ("priority", 1 << 20),
    ("priority", None),
    ("max_attempts", 0),
    ("expires", float("nan")),
    ("expires", -1.0),
    ("catch_up", "some"),
    ("starts_at", LAST),
    ("starts_at", NAIVE),
    ("next_fire_at", None),
    ("next_fire_at", LAST),
    ("next_fire_at", NAIVE),
    ("next_fire_at", "2030-01-01"),
]


@pytest.mark.parametrize(("column", "value"), DAMAGE)
def test_it_is_shown_refused_set_aside_and_mended(
    store: MemoryStore, clock: ManualClock, column: str, value: Any
) -> None:
    store.schedule("good", "@every 10s", "q", 1)
    store.schedule("bad", "@every 10s", "q", 2)
    with store.data.lock:
        setattr(store.data.schedules["bad"], column, value)
    shown = store.get_schedule("bad")
    assert shown is not None
    assert shown.quarantine
    with pytest.raises(ScheduleQuarantined, match="'bad' cannot be fired"):
        store.run_now("bad")
    clock.advance(10)
    assert store.tick() == 1
    assert store.tick() == 0
    assert store.data.schedules["bad"].quarantine == shown.quarantine
    assert [one.name for one in store.schedules() if one.quarantine] == ["bad"]
    mended = store.schedule("bad", "@every 10s", "q", 2)
    assert mended.quarantine is None
    clock.advance(10)
    assert store.tick() == (3 if mended.next_fire_at == clock.now() - timedelta(seconds=10) else 2)


@pytest.mark.parametrize("first", ["bad", "good"])
def test_no_other_loses_a_boundary(store: MemoryStore, clock: ManualClock, first: str) -> None:
    """Whichever of them the tick meets first."""
    for name in sorted(("bad", "good"), key=lambda one: one != first):
        store.schedule(name, "@every 10s", "q", name)
    with store.data.lock:
        store.data.schedules["bad"].next_fire_at = NAIVE
    for _ in range(3):
        clock.advance(10)
        assert store.tick() == 1
    assert [job.payload for job in store.queue("q").peek()] == ["good"] * 3


def test_a_count_that_is_damaged_keeps_nothing_from_firing(
    store: MemoryStore, clock: ManualClock
) -> None:
    store.schedule("counted", "@every 10s", "q", 1)
    with store.data.lock:
        store.data.schedules["counted"].skipped = "many"  # type: ignore[assignment]  # pyright: ignore[reportAttributeAccessIssue]
    clock.advance(10)
    assert store.tick() == 1
    assert [one.skipped for one in store.schedules()] == [0]


def test_one_whose_row_bears_another_name_fires(store: MemoryStore, clock: ManualClock) -> None:
    store.schedule("one", "@every 10s", "q", 1)
    store.schedule("two", "@every 10s", "q", 2)
    with store.data.lock:
        store.data.schedules["one"].name = "renamed"
    clock.advance(10)
    assert store.tick() == 2


def test_one_that_is_paused_is_left_until_it_is_resumed(
    store: MemoryStore, clock: ManualClock
) -> None:
    store.schedule("bad", "@every 10s", "q", 1)
    store.pause("bad")
    store.data.schedules["bad"].spec = "@hourly"
    clock.advance(60)
    assert store.tick() == 0
    assert store.data.schedules["bad"].quarantine is None
    assert store.resume("bad")
    assert store.tick() == 0
    assert store.data.schedules["bad"].quarantine is not None


def test_the_end_of_the_calendar_sets_a_schedule_aside(clock: ManualClock) -> None:
    store = MemoryStore(clock=ManualClock(LAST - timedelta(seconds=25)))
    store.schedule("s", "@every 10s", "q", 1)
    assert isinstance(store.clock, ManualClock)
    store.clock.advance(10)
    assert store.tick() == 1
    store.clock.advance(10)
    assert store.tick() == 0
    shown = store.get_schedule("s")
    assert shown is not None
    assert shown.quarantine == "its next boundary lies after the year 9999"


def test_an_unknown_one_is_told_as_such(store: MemoryStore) -> None:
    with pytest.raises(UnknownSchedule, match="there is no schedule 'nobody'"):
        store.run_now("nobody")
