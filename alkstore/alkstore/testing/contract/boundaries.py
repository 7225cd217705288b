"""Section 7: boundary math, and the tick."""

from __future__ import annotations

import logging
import threading
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Literal

import pytest

from alkstore.errors import ScheduleQuarantined
from alkstore.testing.contract.base import (
    LIMIT,
    PROMPT,
    Background,
    Contract,
    boundary,
    claim,
    fall_asleep,
    live,
    schedule,
    spanning,
)
from alkstore.testing.contract.wakes import take_what_was_said
from alkstore.testing.harness import DamagesSchedules, EngineHarness
from alkstore.traits import Store
from alkstore.values import Wake

MINUTE = timedelta(minutes=1)


def fired(store: Store, queue: str = "q") -> list[datetime | None]:
    """Claim what was fired; return the boundaries in the order of the jobs."""
    handles = store.queue(queue).claim("worker", 1000)
    return [handle.scheduled_for for handle in sorted(handles, key=lambda handle: handle.id)]


def grid(first: datetime, count: int, step: timedelta = MINUTE) -> Sequence[datetime]:
    """Return so many boundaries from *first* on."""
    return [first + number * step for number in range(count)]


def told(caplog: pytest.LogCaptureFixture, name: str) -> list[str]:
    """Return the warnings and errors that the engine has logged about *name*."""
    return [
        record.getMessage()
        for record in caplog.records
        if record.levelno >= logging.WARNING
        and record.name.startswith("alkstore")
        and name in record.getMessage()
    ]


class BoundariesContract(Contract):
    """A tick fires each boundary once, and what is passed over is counted."""

    def test_nothing_fires_before_its_boundary(self, engine: EngineHarness, store: Store) -> None:
        store.schedule("s", "@every 1m", "q", 1)
        engine.advance(30)
        assert engine.tick(store) == 0
        engine.advance(30)
        assert engine.tick(store) == 1
        assert engine.tick(store) == 0

    def test_a_fired_job_carries_its_boundary_and_the_stamps_of_its_schedule(
        self, engine: EngineHarness, store: Store
    ) -> None:
        store.schedule("s", "@every 1h", "q", [1], priority=9, expires=90, max_attempts=7)
        first = boundary(store, "s")
        engine.advance(3605)
        with spanning(engine) as span:
            assert engine.tick(store) == 1
        job = live(store, claim(store.queue("q")).id)
        assert (job.schedule, job.scheduled_for) == ("s", first)
        assert (job.payload, job.priority, job.max_attempts) == ([1], 9, 7)
        assert (job.visibility_timeout, job.base_backoff) == (5 * MINUTE, MINUTE)
        assert job.run_at == job.enqueued_at
        assert job.enqueued_at in span
        assert job.expires_at == job.enqueued_at + timedelta(seconds=90)
        after = schedule(store, "s")
        assert (after.last_fire_at, after.next_fire_at) == (first, first + timedelta(hours=1))

    def test_no_open_handle_lends_its_options_to_a_fired_job(
        self, engine: EngineHarness, store: Store
    ) -> None:
        queue = store.queue("q", max_attempts=99, visibility_timeout=1, base_backoff=1)
        store.schedule("s", "@every 1h", "q", 1)
        engine.advance(3601)
        engine.tick(store)
        job = live(store, claim(queue).id)
        assert (job.max_attempts, job.priority, job.expires_at) == (3, 0, None)
        assert (job.visibility_timeout, job.base_backoff) == (5 * MINUTE, MINUTE)

    @pytest.mark.parametrize(
        ("missed", "fires", "skipped"),
        [(1, 1, 0), (2, 2, 0), (63, 63, 0), (64, 64, 0), (65, 64, 1), (1000, 64, 936)],
    )
    def test_all_missed_boundaries_fire_oldest_first_up_to_64(
        self, engine: EngineHarness, store: Store, missed: int, fires: int, skipped: int
    ) -> None:
        store.schedule("s", "@every 1m", "q", 1)
        first = boundary(store, "s")
        engine.advance(missed * 60 + 1)
        assert engine.tick(store) == fires
        assert fired(store) == grid(first, fires)
        after = schedule(store, "s")
        assert after.skipped == skipped
        assert after.next_fire_at == first + missed * MINUTE
        assert after.last_fire_at == grid(first, fires)[-1]

    @pytest.mark.parametrize("missed", [1, 2, 64, 65, 1000])
    def test_the_latest_missed_boundary_alone_fires_if_that_is_wished(
        self, engine: EngineHarness, store: Store, missed: int
    ) -> None:
        store.schedule("s", "@every 1m", "q", 1, catch_up="latest")
        first = boundary(store, "s")
        engine.advance(missed * 60 + 1)
        assert engine.tick(store) == 1
        assert fired(store) == [first + (missed - 1) * MINUTE]
        after = schedule(store, "s")
        assert (after.skipped, after.next_fire_at) == (missed - 1, first + missed * MINUTE)

    @pytest.mark.parametrize("catch_up", ["all", "latest"])
    def test_a_long_absence_is_counted_to_the_last_boundary(
        self, engine: EngineHarness, store: Store, catch_up: Literal["all", "latest"]
    ) -> None:
        made = store.schedule("s", "@every 1s", "q", 1, catch_up=catch_up)
        assert made.next_fire_at is not None
        engine.advance(1_000_000.5)
        with spanning(engine) as span:
            fires = engine.tick(store)
        after = schedule(store, "s")
        assert after.next_fire_at is not None
        assert fires == (64 if catch_up == "all" else 1)
        second = timedelta(seconds=1)
        # Where the clock goes on by itself there may be some more than a million.
        assert span.first < after.next_fire_at <= span.last + second
        assert (after.next_fire_at - made.next_fire_at) % second == timedelta(0)
        passed = (after.next_fire_at - made.next_fire_at) // second
        assert after.skipped + fires == passed >= 1_000_000

    def test_what_is_skipped_adds_up(self, engine: EngineHarness, store: Store) -> None:
        store.schedule("s", "@every 1m", "q", 1)
        for outages in (1, 2):
            engine.advance(100 * 60)
            assert engine.tick(store) == 64
            assert schedule(store, "s").skipped == outages * 36

    def test_the_oldest_boundary_of_all_schedules_fires_first(
        self, engine: EngineHarness, store: Store
    ) -> None:
        now = engine.now()
        for name, seconds in (("a", 30), ("b", 10), ("c", 50)):
            first = now + timedelta(seconds=seconds)
            store.schedule(name, "@every 1m", "q", 1, starts_at=first)
        engine.advance(115)
        assert engine.tick(store) == 6
        handles = store.queue("q").claim("worker", 6)
        order = [handle.schedule for handle in sorted(handles, key=lambda handle: handle.id)]
        assert order == ["b", "a", "c"] * 2

    def test_what_was_skipped_is_logged(
        self, engine: EngineHarness, store: Store, caplog: pytest.LogCaptureFixture
    ) -> None:
        store.schedule("the report", "@every 1m", "q", 1)
        engine.advance(64 * 60 + 1)
        engine.tick(store)
        assert not told(caplog, "the report")
        engine.advance(100 * 60)
        engine.tick(store)
        (message,) = told(caplog, "the report")
        assert "36" in message

    def test_what_the_latest_boundary_leaves_behind_is_logged(
        self, engine: EngineHarness, store: Store, caplog: pytest.LogCaptureFixture
    ) -> None:
        store.schedule("the report", "@every 1m", "q", 1, catch_up="latest")
        engine.advance(61)
        assert engine.tick(store) == 1
        assert not told(caplog, "the report")
        engine.advance(37 * 60)
        assert engine.tick(store) == 1
        (message,) = told(caplog, "the report")
        assert "36" in message

    def test_nothing_that_was_skipped_fires_later(
        self, engine: EngineHarness, store: Store
    ) -> None:
        store.schedule("s", "@every 1m", "q", 1)
        first = boundary(store, "s")
        engine.advance(100 * 60 + 1)
        assert engine.tick(store) == 64
        assert engine.tick(store) == 0
        fired(store)
        engine.advance(60)
        assert engine.tick(store) == 1
        assert fired(store) == [first + 100 * MINUTE]
        assert schedule(store, "s").skipped == 36

    def test_a_boundary_that_is_now_is_due(self, engine: EngineHarness, store: Store) -> None:
        anchor = engine.now() + MINUTE
        store.schedule("s", "@every 1m", "q", 1, starts_at=anchor)
        engine.advance((anchor - engine.now()).total_seconds())
        assert engine.tick(store) == 1
        assert fired(store) == [anchor]

    def test_the_grid_never_drifts_however_late_the_ticks_are(
        self, engine: EngineHarness, store: Store
    ) -> None:
        store.schedule("s", "@every 7s", "q", 1)
        first = boundary(store, "s")
        engine.advance(7)
        for late in (0.5, 7.25, 3.125, 13.875, 0.001):
            engine.advance(late)
            engine.tick(store)
        engine.advance(20)
        with spanning(engine) as span:
            engine.tick(store)
        step = timedelta(seconds=7)
        boundaries = fired(store)
        assert boundaries == grid(first, len(boundaries), step)
        assert len(boundaries) >= (44.751 + 7) // 7
        following = boundary(store, "s")
        assert following == first + len(boundaries) * step
        assert span.first < following <= span.last + step

    def test_a_change_of_the_cap_counts_per_schedule(
        self, engine: EngineHarness, store: Store
    ) -> None:
        store.schedule("fast", "@every 1s", "fast", 1)
        store.schedule("slow", "@every 1m", "slow", 1)
        engine.advance(121)
        assert engine.tick(store) == 66
        assert (store.queue("fast").size(), store.queue("slow").size()) == (64, 2)

    @pytest.mark.usefixtures("turns")
    def test_two_tickers_at_once_never_fire_a_boundary_twice(
        self, engine: EngineHarness, store: Store
    ) -> None:
        for number in range(20):
            store.schedule(f"s{number}", "@every 1m", "q", number)
        stores = [store, *(engine.open() for _ in range(2))]
        begin = threading.Barrier(len(stores))
        engine.advance(1)

        def tick(of: Store) -> int:
            begin.wait()
            return engine.tick(of)

        for turn in range(1, 6):
            engine.advance(60)
            tickers = [Background(lambda of=each: tick(of)) for each in stores]  # type: ignore[misc]
            total = sum(ticker.result() for ticker in tickers)
            assert total + engine.tick(store) == 20
            assert store.queue("q").size() == turn * 20

    def test_a_fire_wakes_who_waits_on_the_queue(
        self, engine: EngineHarness, store: Store, other: Store
    ) -> None:
        store.schedule("s", "@every 1h", "q", 1)
        waiter = Background(lambda: other.queue("q").claim_wait("worker", timeout=LIMIT))
        engine.advance(3601)
        fall_asleep()
        assert engine.tick(store) == 1
        assert [handle.schedule for handle in waiter.result(PROMPT)] == ["s"]

    def test_a_fire_is_heard_and_a_tick_that_finds_nothing_due_is_not(
        self, engine: EngineHarness, store: Store, other: Store
    ) -> None:
        store.schedule("s", "@every 1h", "q", 1)
        with other.listen("q", "mark") as listener:
            take_what_was_said(store, listener)
            assert engine.tick(store) == 0
            store.notify("mark")
            wake = listener.wait(LIMIT)
            assert wake is not None
            assert wake.channel == "mark"
            engine.advance(3601)
            assert engine.tick(store) == 1
            wake = listener.wait(LIMIT)
            assert wake is not None
            assert wake.channel == "q"

    def test_a_tick_wakes_each_queue_that_it_fires_into_and_no_other(
        self, engine: EngineHarness, store: Store, other: Store
    ) -> None:
        for number in range(4):
            store.schedule(f"one {number}", "@every 1m", "one", 1)
        store.schedule("two", "@every 1h", "two", 1)
        store.schedule("three", "@every 2h", "three", 1)
        with other.listen("one", "two", "three", "mark") as listener:
            engine.advance(3601)
            take_what_was_said(store, listener)
            assert engine.tick(store) == 4 * 60 + 1
            heard = {listener.wait(LIMIT), listener.wait(LIMIT)}
            assert heard == {Wake("one"), Wake("two")}
            store.notify("mark")
            last = listener.wait(LIMIT)
            assert last == Wake("mark")

    def test_a_damaged_schedule_is_quarantined_and_no_other_waits_for_it(
        self, engine: EngineHarness, store: Store, caplog: pytest.LogCaptureFixture
    ) -> None:
        if not isinstance(engine, DamagesSchedules):
            pytest.skip("the harness has no damage_schedule")
        store.schedule("bad", "@every 1m", "q", 1)
        store.schedule("good", "@every 1m", "q", 1)
        engine.damage_schedule("bad")
        engine.advance(61)
        assert engine.tick(store) == 1
        assert claim(store.queue("q")).schedule == "good"
        assert schedule(store, "bad").quarantine
        assert len(told(caplog, "bad")) == 1
        assert [found.name for found in store.schedules()] == ["bad", "good"]
        with pytest.raises(ScheduleQuarantined):
            store.run_now("bad")
        engine.advance(60)
        assert engine.tick(store) == 1
        assert len(told(caplog, "bad")) == 1  # skipped, and not looked at again
        assert store.schedule("bad", "@every 1m", "q", 1).quarantine is None
        engine.advance(61)
        assert engine.tick(store) == 2
