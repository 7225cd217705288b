"""Section 7: the lease of the leader, and that nothing fires without it."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import pytest

from alkstore._typing import override
from alkstore.errors import LeadershipLost
from alkstore.names import SCHEDULER_LOCK
from alkstore.stop_token import StopToken
from alkstore.testing.contract.base import (
    LIMIT,
    PROMPT,
    Background,
    Contract,
    fire_once,
    wait_until,
)
from alkstore.testing.contract.wakes import hears, take_what_was_said
from alkstore.testing.harness import EngineHarness, HandlesLeases
from alkstore.traits import Store


class LeadersLeaseContract(Contract):
    """Whoever fires holds the lease."""

    def test_the_lease_is_renewed_while_nothing_is_due(
        self, engine: EngineHarness, store: Store, other: Store
    ) -> None:
        store.schedule("s", "@every 30d", "q", 1)
        with leading(engine, store) as runner:
            for _ in range(4):
                # Together longer than the lease; each leaves a busy machine time to renew it.
                engine.advance(4)
                wait_until(lambda: lease_is_fresh(other) or not runner.running)
                assert runner.running

    def test_the_lease_is_proved_before_the_first_tick(
        self, engine: EngineHarness, store: Store, other: Store
    ) -> None:
        store.schedule("s", "@every 1s", "q", 1)
        first_stop, second_stop = StopToken(), StopToken()
        with held_up_at("leading", logging.INFO) as (first_pause, second_pause):
            engine.advance(5)
            first = Background(lambda: store.run_schedules(first_stop))
            assert first_pause.reached.wait(LIMIT), "a leader does not log that it leads"
            engine.advance(100)
            second = Background(lambda: other.run_schedules(second_stop))
            assert second_pause.reached.wait(LIMIT)
            # The second has the lease, neither has fired anything, and 105 boundaries are due.
            first_pause.go_on.set()
            with pytest.raises(LeadershipLost):
                first.result()
            assert store.queue("q").size() == 0
            second_pause.go_on.set()
            # Where the clock goes on by itself there may be some more.
            wait_until(lambda: store.queue("q").size() >= 64)
            second_stop.cancel()
            second.result()

    def test_a_tick_that_is_refused_for_want_of_the_lease_wakes_nobody(
        self, engine: EngineHarness, store: Store, other: Store
    ) -> None:
        store.schedule("s", "@every 1s", "q", 1)
        first_stop, second_stop = StopToken(), StopToken()
        with (
            held_up_at("leading", logging.INFO) as (first_pause, second_pause),
            other.listen("q", "mark") as listener,
        ):
            first = Background(lambda: store.run_schedules(first_stop))
            assert first_pause.reached.wait(LIMIT)
            engine.advance(100)
            second = Background(lambda: other.run_schedules(second_stop))
            assert second_pause.reached.wait(LIMIT)
            take_what_was_said(store, listener)
            first_pause.go_on.set()
            with pytest.raises(LeadershipLost):
                first.result()
            store.notify("mark")
            assert hears(listener, "mark")
            second_pause.go_on.set()
            assert hears(listener, "q")
            second_stop.cancel()
            second.result()

    def test_the_lease_is_proved_before_anything_is_fired(
        self, engine: EngineHarness, store: Store, other: Store
    ) -> None:
        store.schedule("slow", "@every 1s", "q", 1)
        first_stop, second_stop = StopToken(), StopToken()
        with held_up_at("slow", logging.WARNING) as (first_pause, second_pause):
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
            # Where the clock goes on by itself there may be some more.
            wait_until(lambda: store.queue("q").size() >= 133)
            second_stop.cancel()
            second.result()

    def test_a_leader_that_lost_its_lease_in_its_sleep_fires_nothing_any_more(
        self, engine: EngineHarness, store: Store
    ) -> None:
        if not isinstance(engine, HandlesLeases):
            pytest.skip("the harness has no take_lease")
        store.schedule("s", "@every 1h", "q", 1)
        stop = StopToken()
        runner = Background(lambda: store.run_schedules(stop))
        wait_for_leader(engine, store)
        engine.take_lease(SCHEDULER_LOCK)
        engine.advance(3601)
        with pytest.raises(LeadershipLost) as lost:
            runner.result()
        assert lost.value.retry_after is None or lost.value.retry_after > 10
        assert store.queue("q").size() == 0
        # And the lease that is another one's was not given back.
        assert engine.lease_owner(SCHEDULER_LOCK) is not None
        with pytest.raises(LeadershipLost):
            store.run_schedules(StopToken())

    def test_each_run_has_an_owner_token_of_its_own(
        self, engine: EngineHarness, store: Store, other: Store
    ) -> None:
        if not isinstance(engine, HandlesLeases):
            pytest.skip("the harness has no lease_owner")
        owners: list[str | None] = []
        for who in (store, store, other):
            with leading(engine, who):
                owners.append(engine.lease_owner(SCHEDULER_LOCK))
            assert engine.lease_owner(SCHEDULER_LOCK) is None
        assert None not in owners
        assert len(set(owners)) == len(owners)


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
    """Holds up each thread the first time that it tells of *about*, at another of the *pauses*."""

    def __init__(self, about: str, level: int, pauses: Iterable[Pause]) -> None:
        super().__init__(level)
        self._about = about
        self._pauses = iter(pauses)
        self._held: set[int] = set()

    @override
    def handle(self, record: logging.LogRecord) -> bool:
        # Not `emit`: one thread at a time may be in there.
        thread = threading.get_ident()
        if thread in self._held or self._about not in record.getMessage():
            return True
        if pause := next(self._pauses, None):
            self._held.add(thread)
            pause.reached.set()
            pause.go_on.wait(LIMIT)
        return True


@contextmanager
def held_up_at(about: str, level: int) -> Iterator[tuple[Pause, Pause]]:
    """Hold up the first two threads that log, from *level* on, a line with *about* in it."""
    pauses = Pause(), Pause()
    handler = _HoldUp(about, level, pauses)
    logger = logging.getLogger("alkstore")
    before = logger.level
    logger.addHandler(handler)
    if not logger.isEnabledFor(level):
        logger.setLevel(level)
    try:
        yield pauses
    finally:
        logger.setLevel(before)
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
    if isinstance(engine, HandlesLeases):
        # It returns within 100 ms also where the release takes longer.
        leases: HandlesLeases = engine
        wait_until(lambda: leases.lease_owner(SCHEDULER_LOCK) is None, PROMPT)


def wait_for_leader(engine: EngineHarness, store: Store) -> None:
    """Return when somebody fires: a schedule is due a moment from now, and never again."""
    proof = store.queue("proof of a leader")
    before = proof.size()
    engine.advance(fire_once(engine, store, proof.name, 1))
    wait_until(lambda: proof.size() > before)
