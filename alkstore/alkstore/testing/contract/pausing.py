"""Section 7: schedules that are paused and resumed, and run out of turn."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from alkstore.errors import UnknownSchedule
from alkstore.testing.contract.base import Contract, boundary, live, schedule, spanning
from alkstore.testing.harness import EngineHarness
from alkstore.traits import Store


class PausingContract(Contract):
    """A pause drops what comes meanwhile, and nothing else; an extra run moves nothing."""

    def test_a_paused_schedule_fires_nothing(self, engine: EngineHarness, store: Store) -> None:
        store.schedule("s", "@every 1h", "q", 1)
        assert store.pause("s")
        assert schedule(store, "s").paused
        engine.advance(9000)
        assert engine.tick(store) == 0

    def test_a_resumed_schedule_goes_on_at_the_first_boundary_of_the_old_grid_after_now(
        self, engine: EngineHarness, store: Store
    ) -> None:
        store.schedule("s", "@every 1h", "q", 1)
        first = boundary(store, "s")
        assert store.pause("s")
        engine.advance(2.5 * 3600)
        assert store.resume("s")
        assert engine.tick(store) == 0
        assert boundary(store, "s") == first + timedelta(hours=2)
        assert not schedule(store, "s").paused
        engine.advance(1800)
        assert engine.tick(store) == 1

    def test_resuming_what_is_not_paused_leaves_an_owed_boundary(
        self, engine: EngineHarness, store: Store
    ) -> None:
        first = store.schedule("s", "@every 1h", "q", 1)
        engine.advance(3700)
        assert store.resume("s")
        assert boundary(store, "s") == first.next_fire_at
        assert engine.tick(store) == 1

    def test_pause_and_resume_tell_whether_there_is_such_a_schedule(self, store: Store) -> None:
        assert not store.pause("s")
        assert not store.resume("s")
        store.schedule("s", "@every 1h", "q", 1)
        assert store.pause("s")
        assert store.pause("s")
        assert store.resume("s")
        assert store.resume("s")

    def test_a_resumption_before_the_boundary_keeps_it(
        self, engine: EngineHarness, store: Store
    ) -> None:
        store.schedule("s", "@every 1h", "q", 1)
        first = boundary(store, "s")
        engine.advance(600)
        assert store.pause("s")
        assert boundary(store, "s") == first
        engine.advance(600)
        assert store.resume("s")
        assert boundary(store, "s") == first
        assert engine.tick(store) == 0
        engine.advance(2401)
        assert engine.tick(store) == 1
        assert schedule(store, "s").last_fire_at == first

    @pytest.mark.parametrize("owed", [1, 3])
    def test_what_was_owed_before_the_pause_is_dropped_and_the_grid_stays(
        self, engine: EngineHarness, store: Store, owed: int
    ) -> None:
        store.schedule("s", "@every 1h", "q", 1)
        first = boundary(store, "s")
        engine.advance(owed * 3600 + 100)
        assert store.pause("s")
        assert engine.tick(store) == 0
        assert store.resume("s")
        after = schedule(store, "s")
        assert after.next_fire_at == first + timedelta(hours=owed)
        # Nothing is made up for: it counts neither as fired nor as skipped.
        assert (after.last_fire_at, after.skipped) == (None, 0)
        assert engine.tick(store) == 0
        engine.advance(3600)
        assert engine.tick(store) == 1

    def test_a_pause_and_a_resumption_keep_what_was_fired_and_skipped_before(
        self, engine: EngineHarness, store: Store
    ) -> None:
        store.schedule("s", "@every 1m", "q", 1)
        engine.advance(100 * 60)
        assert engine.tick(store) == 64
        fired = schedule(store, "s")
        assert fired.skipped == 36
        assert store.resume("s")  # it is not paused
        assert store.get_schedule("s") == fired
        assert store.pause("s")
        assert store.get_schedule("s") == replace(fired, paused=True)
        engine.advance(1000)
        assert engine.tick(store) == 0
        assert store.resume("s")
        after = schedule(store, "s")
        assert (after.skipped, after.last_fire_at) == (36, fired.last_fire_at)

    def test_run_now_fires_one_extra_job_and_moves_no_boundary(
        self, engine: EngineHarness, store: Store
    ) -> None:
        before = store.schedule("s", "@every 1h", "q", [1], priority=3, expires=9, max_attempts=2)
        engine.advance(60)
        with spanning(engine) as span:
            job = live(store, store.run_now("s"))
        assert (job.queue, job.payload, job.priority) == ("q", [1], 3)
        assert (job.max_attempts, job.schedule, job.scheduled_for) == (2, "s", None)
        assert job.expires_at in span + 9
        assert store.get_schedule("s") == before

    def test_run_now_after_a_fire_has_no_boundary_fire_again(
        self, engine: EngineHarness, store: Store
    ) -> None:
        store.schedule("s", "@every 1h", "q", 1)
        engine.advance(3601)
        assert engine.tick(store) == 1
        before = schedule(store, "s")
        store.run_now("s")
        assert schedule(store, "s") == before
        assert engine.tick(store) == 0
        assert store.queue("q").size() == 2

    def test_a_paused_schedule_can_be_run_now(self, engine: EngineHarness, store: Store) -> None:
        store.schedule("s", "@every 1h", "q", 1)
        store.pause("s")
        before = schedule(store, "s")
        assert store.get_job(store.run_now("s")) is not None
        assert schedule(store, "s") == before
        engine.advance(3601)
        assert engine.tick(store) == 0

    def test_there_is_nothing_to_run_of_a_schedule_that_does_not_exist(self, store: Store) -> None:
        with pytest.raises(UnknownSchedule) as refused:
            store.run_now("s")
        assert isinstance(refused.value, KeyError)
        assert store.get_schedule("s") is None
