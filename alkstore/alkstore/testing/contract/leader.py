"""Section 7: the leader loop."""

from __future__ import annotations

import logging

import pytest

from alkstore.errors import LeadershipLost, StoreClosed
from alkstore.stop_token import StopToken
from alkstore.testing.contract.base import LIMIT, Background, boundary, wait_until
from alkstore.testing.contract.leaders_lease import (
    LeadersLeaseContract,
    held_up_at,
    leading,
    wait_for_leader,
)
from alkstore.testing.harness import EngineHarness
from alkstore.traits import Store


class LeaderContract(LeadersLeaseContract):
    """One runner fires schedules; another takes over when it ends."""

    def test_the_leader_fires_what_is_due(self, engine: EngineHarness, store: Store) -> None:
        store.schedule("s", "@every 1h", "q", 1)
        with leading(engine, store):
            engine.advance(3601)
            wait_until(lambda: store.queue("q").size() == 1)

    def test_it_notices_what_another_process_registers_changes_and_resumes(
        self, engine: EngineHarness, store: Store, other: Store
    ) -> None:
        with leading(engine, store):
            other.schedule("s", "@every 1h", "q", 1)
            engine.advance(3601)
            wait_until(lambda: store.queue("q").size() == 1)
            other.schedule("s", "@every 1m", "q", 1)
            engine.advance(61)
            wait_until(lambda: store.queue("q").size() == 2)
            other.pause("s")
            engine.advance(61)
            other.resume("s")
            engine.advance(61)
            wait_until(lambda: store.queue("q").size() == 3)

    def test_another_holds_it_means_leadership_lost_at_once(
        self, engine: EngineHarness, store: Store, other: Store
    ) -> None:
        with leading(engine, store):
            for who in (store, other):
                with pytest.raises(LeadershipLost) as lost:
                    who.run_schedules(StopToken())
                assert lost.value.retry_after is None or 0 <= lost.value.retry_after <= 10

    def test_a_stop_returns_and_another_may_lead_at_once(
        self, engine: EngineHarness, store: Store, other: Store
    ) -> None:
        store.schedule("s", "@every 1h", "q", 1)
        for who in (store, other, store):
            with leading(engine, who):
                pass
        assert store.queue("q").size() == 0

    def test_a_stop_that_came_first_returns(
        self, engine: EngineHarness, store: Store, other: Store
    ) -> None:
        stop = StopToken()
        stop.cancel()
        store.run_schedules(stop)
        with leading(engine, other):
            store.run_schedules(stop)

    def test_a_lease_that_lapsed_lets_another_lead_and_no_boundary_fires_twice(
        self, engine: EngineHarness, store: Store, other: Store
    ) -> None:
        store.schedule("s", "@every 1s", "q", 1)
        first_stop, second_stop = StopToken(), StopToken()
        with held_up_at("leading", logging.INFO) as (first_pause, second_pause):
            second_pause.go_on.set()
            first = Background(lambda: store.run_schedules(first_stop))
            # It has the lease and renews it no more, as if it had been killed.
            assert first_pause.reached.wait(LIMIT)
            engine.advance(30)
            second = Background(lambda: other.run_schedules(second_stop))
            wait_until(lambda: store.queue("q").size() >= 30 or not second.running)
            assert second.running
            first_pause.go_on.set()
            with pytest.raises(LeadershipLost):
                first.result()
            engine.advance(5)
            wait_until(lambda: store.queue("q").size() >= 35)
        second_stop.cancel()
        second.result()
        boundaries = [job.scheduled_for for job in store.queue("q").claim("worker", 1000)]
        assert len(set(boundaries)) == len(boundaries)

    def test_closing_the_store_ends_it(self, engine: EngineHarness, other: Store) -> None:
        closing = engine.open()
        runner = Background(lambda: closing.run_schedules(StopToken()))
        wait_for_leader(engine, other)
        closing.close()
        with pytest.raises(StoreClosed):
            runner.result()
        with leading(engine, other):
            pass

    def test_the_lease_survives_a_long_sleep(
        self, engine: EngineHarness, store: Store, other: Store
    ) -> None:
        store.schedule("s", "@every 30d", "q", 1)
        with leading(engine, store) as runner:
            engine.advance(20 * 86_400)
            assert boundary(other, "s") > engine.now()
            engine.advance(10 * 86_400 + 1)
            wait_until(lambda: store.queue("q").size() == 1)
            assert runner.running
