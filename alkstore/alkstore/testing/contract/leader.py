"""Section 7: the leader loop."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import timedelta

import pytest

from alkstore._typing import override
from alkstore.errors import LeadershipLost, StoreClosed
from alkstore.stop_token import StopToken
from alkstore.testing.contract.base import (
    LIMIT,
    PROMPT,
    Background,
    Contract,
    boundary,
    wait_until,
)
from alkstore.testing.harness import EngineHarness
from alkstore.traits import Store


class LeaderContract(Contract):
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

    def test_a_stop_that_came_first_returns(self, store: Store) -> None:
        stop = StopToken()
        stop.cancel()
        store.run_schedules(stop)

    def test_a_lease_that_lapsed_lets_another_lead_and_no_boundary_fires_twice(
        self, engine: EngineHarness, store: Store, other: Store
    ) -> None:
        store.schedule("s", "@every 1s", "q", 1)
        first_stop, second_stop = StopToken(), StopToken()
        first = Background(lambda: store.run_schedules(first_stop))
        wait_for_leader(engine, store)
        engine.advance(30)
        second = Background(lambda: other.run_schedules(second_stop))
        wait_until(lambda: store.queue("q").size() >= 30)
        wait_until(lambda: first.running != second.running)
        for stop, runner in ((first_stop, first), (second_stop, second)):
            stop.cancel()
            try:
                runner.result()
            except LeadershipLost:
                continue
        handles = store.queue("q").claim("worker", 1000)
        boundaries = [handle.scheduled_for for handle in handles]
        assert len(set(boundaries)) == len(boundaries)

    def test_the_lease_is_renewed_while_nothing_is_due(
        self, engine: EngineHarness, store: Store, other: Store
    ) -> None:
        store.schedule("s", "@every 30d", "q", 1)
        with leading(engine, store) as runner:
            for _ in range(4):
                engine.advance(6)
                wait_until(lambda: lease_is_fresh(other) or not runner.running)
                assert runner.running

    def test_the_lease_is_proved_before_anything_is_fired(
        self, engine: EngineHarness, store: Store, other: Store
    ) -> None:
        store.schedule("slow", "@every 1s", "q", 1)
        first_stop, second_stop = StopToken(), StopToken()
        with held_up_by("slow") as (first_pause, second_pause):
            engine.advance(100)
            first = Background(lambda: store.run_schedules(first_stop))
            assert first_pause.reached.wait(LIMIT)
            engine.advance(100)
            second = Background(lambda: other.run_schedules(second_stop))
            assert second_pause.reached.wait(LIMIT)
            assert store.queue("q").size() == 128
            # The second leads, the first does not know it yet, and five boundaries are due.
            engine.advance(5)
            first_pause.go_on.set()
            with pytest.raises(LeadershipLost):
                first.result()
            assert store.queue("q").size() == 128
            second_pause.go_on.set()
            wait_until(lambda: store.queue("q").size() == 133)
            second_stop.cancel()
            second.result()

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


def lease_is_fresh(other: Store) -> bool:
    """Return whether another runner is refused, for almost as long as a lease lasts."""
    stop = StopToken()
    comer = Background(lambda: other.run_schedules(stop))
    try:
        comer.result(PROMPT)
    except LeadershipLost as lost:
        return lost.retry_after is None or lost.retry_after > 7
    finally:
        stop.cancel()
    return False


class Pause:
    """Where a thread is held up until it may go on."""

    def __init__(self) -> None:
        self.reached, self.go_on = threading.Event(), threading.Event()


class _HoldUp(logging.Handler):
    """Holds up whoever tells of *name*, each time at another of the *pauses*."""

    def __init__(self, name: str, pauses: Iterable[Pause]) -> None:
        super().__init__(logging.WARNING)
        self._about = name
        self._pauses = iter(pauses)

    @override
    def handle(self, record: logging.LogRecord) -> bool:
        # Not `emit`: one thread at a time may be in there.
        if self._about in record.getMessage() and (pause := next(self._pauses, None)):
            pause.reached.set()
            pause.go_on.wait(LIMIT)
        return True


@contextmanager
def held_up_by(name: str) -> Iterator[tuple[Pause, Pause]]:
    """Hold up the first two threads that log what was skipped of the schedule *name*."""
    pauses = Pause(), Pause()
    handler = _HoldUp(name, pauses)
    logger = logging.getLogger("alkstore")
    logger.addHandler(handler)
    try:
        yield pauses
    finally:
        logger.removeHandler(handler)
        for pause in pauses:
            pause.go_on.set()


@contextmanager
def leading(engine: EngineHarness, store: Store) -> Iterator[Background[None]]:
    """Run a leader loop in a thread that leads already; it must end by the stop, and soon."""
    stop = StopToken()
    runner = Background(lambda: store.run_schedules(stop))
    wait_for_leader(engine, store)
    yield runner
    stop.cancel()
    runner.result(PROMPT)


def wait_for_leader(engine: EngineHarness, store: Store) -> None:
    """Return when somebody fires: a schedule is due a moment from now, and never again."""
    proof = store.queue("proof of a leader")
    before = proof.size()
    moment = engine.now() + timedelta(seconds=1)
    store.schedule(proof.name, "@every 36500d", proof.name, None, starts_at=moment)
    engine.advance(1)
    wait_until(lambda: proof.size() > before)
