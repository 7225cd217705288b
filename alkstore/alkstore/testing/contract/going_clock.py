"""Sections 5, 6 and 7 on a clock that goes on: who waits for a time sleeps until then.

Where time passes by a step of the harness, the step may wake whoever waits; then nothing shows
whether they had known when to wake up. These tests step nothing while anybody waits.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime, timedelta
from itertools import pairwise

import pytest

from alkstore.errors import LeadershipLost
from alkstore.stop_token import StopToken
from alkstore.testing.contract.base import (
    LIMIT,
    PROMPT,
    Background,
    Contract,
    claim,
    fall_asleep,
    fire_once,
    wait_until,
)
from alkstore.testing.contract.leaders_lease import held_up_at
from alkstore.testing.harness import EngineHarness
from alkstore.traits import Store

RENEWAL = timedelta(seconds=3.5)
"""A leader that renews its lease every 2 s does so within this, unless the machine is busy."""

ROUNDS = 5
"""How often a leader may be late before it counts as one that was not woken."""

WAIT = 0.5
BUSY = 0.015
"""So many seconds of the processor are plenty for whoever waits for `WAIT` seconds: a look costs
a tenth of them at the most. One look each millisecond takes several times as many."""


def _register(store: Store, soon: datetime) -> None:
    store.schedule("s", "@every 1d", "q", None, starts_at=soon)


def _prepare_a_change(store: Store, soon: datetime) -> None:
    store.schedule("s", "@every 30d", "q", None, starts_at=soon + timedelta(days=1))


def _prepare_a_resumption(store: Store, soon: datetime) -> None:
    store.schedule("s", "@every 1d", "q", None, starts_at=soon)
    store.pause("s")


CHANGES: dict[str, tuple[Callable[[Store, datetime], object], Callable[[Store, datetime], object]]]
CHANGES = {
    "registered": (lambda store, _: store.unschedule("s"), _register),
    "changed": (_prepare_a_change, _register),
    "resumed": (_prepare_a_resumption, lambda store, _: store.resume("s")),
}
"""What is done before a leader falls asleep, and what it must then hear of."""


class GoingClockContract(Contract):
    """What becomes due by itself is found well before a waiter looks again by itself.

    Not a part of `EngineContract`: it needs a harness whose clock goes on between two calls of
    `EngineHarness.advance`.
    """

    def test_the_clock_of_the_harness_goes_on(self, engine: EngineHarness, store: Store) -> None:
        del store  # a harness may need tables for its clock
        before = engine.now()
        time.sleep(0.02)
        assert engine.now() > before

    def test_who_waits_for_a_job_sleeps_no_longer_than_until_it_is_due(self, store: Store) -> None:
        queue = store.queue("mail")
        job = queue.enqueue(1, delay=1)
        queue.enqueue(2, delay=3600)
        waiter = Background(lambda: queue.claim_wait("worker", timeout=LIMIT))
        assert [handle.id for handle in waiter.result(1 + PROMPT)] == [job]

    @pytest.mark.parametrize("before", [None, 3600], ids=["nothing", "a later job"])
    def test_who_waits_already_sleeps_no_longer_than_until_a_new_job_is_due(
        self, store: Store, other: Store, before: float | None
    ) -> None:
        queue = store.queue("mail")
        if before is not None:
            queue.enqueue(1, delay=before)
        waiter = Background(lambda: queue.claim_wait("worker", timeout=LIMIT))
        fall_asleep()
        job = other.queue("mail").enqueue(2, delay=1)
        assert [handle.id for handle in waiter.result(1 + PROMPT)] == [job]

    def test_who_waits_for_a_job_sleeps_no_longer_than_until_a_claim_lapses(
        self, store: Store
    ) -> None:
        queue = store.queue("mail", visibility_timeout=1)
        job = queue.enqueue(1)
        claim(queue)
        queue.enqueue(2, delay=3600)
        waiter = Background(lambda: queue.claim_wait("worker", timeout=LIMIT))
        assert [handle.id for handle in waiter.result(1 + PROMPT)] == [job]

    def test_who_waits_for_a_time_does_not_look_again_and_again_until_it_comes(
        self, store: Store
    ) -> None:
        queue = store.queue("mail")
        for priority in (-1, 0, 1):
            queue.enqueue(1, priority=priority)
            claim(queue)
            queue.enqueue(2, priority=priority, delay=3600)

        def busy() -> float:
            before = time.thread_time()
            assert queue.claim_wait("worker", timeout=WAIT) == []
            return time.thread_time() - before

        # A thread may have other things to do, such as to collect what is garbage, but not always.
        seen = [Background(busy).result()]
        while seen[-1] >= BUSY and len(seen) < ROUNDS:
            seen.append(Background(busy).result())
        assert seen[-1] < BUSY, seen

    def test_who_waits_for_a_lock_sleeps_no_longer_than_the_lease_holds(
        self, store: Store, other: Store
    ) -> None:
        assert store.try_lock("door", 1) is not None
        waiter = Background(lambda: other.lock("door", 60, timeout=LIMIT))
        assert waiter.result(1 + PROMPT).renew()

    def test_a_leader_fires_when_a_boundary_comes(self, store: Store) -> None:
        stop = StopToken()
        runner = Background(lambda: store.run_schedules(stop))
        store.schedule("s", "@every 1s", "q", 1)
        # It may notice the schedule only when it renews its lease, every 2 s.
        waiter = Background(lambda: store.queue("q").claim_wait("worker", timeout=LIMIT))
        assert waiter.result(2 + PROMPT)
        stop.cancel()
        runner.result(PROMPT)

    def test_a_leader_that_nothing_wakes_renews_its_lease_again_and_again(
        self, engine: EngineHarness, store: Store, other: Store
    ) -> None:
        store.schedule("s", "@every 30d", "q", 1)
        stop = StopToken()
        runner = Background(lambda: store.run_schedules(stop))
        fire_once(engine, store, "q", 0.1)
        assert store.queue("q").claim_wait("worker", timeout=LIMIT)
        ends: list[datetime] = []
        # On a busy machine a renewal may come late, too, but not each one.
        while not any(later - end < RENEWAL for end, later in pairwise(ends)):
            end = _end_of_lease(engine, other)
            if end is not None and (not ends or end > ends[-1] + timedelta(seconds=0.5)):
                ends.append(end)
            time.sleep(0.05)
            assert len(ends) < ROUNDS, ends
        stop.cancel()
        runner.result(PROMPT)

    def test_a_leader_that_is_gone_is_replaced_when_its_lease_has_lapsed(
        self, engine: EngineHarness, store: Store, other: Store
    ) -> None:
        stop = StopToken()
        with held_up_at("leading", logging.INFO) as (gone, second):
            second.go_on.set()
            # It has the lease for 10 s, and neither renews it nor gives it back.
            runner = Background(lambda: store.run_schedules(stop))
            assert gone.reached.wait(LIMIT)
            engine.advance(9.2)
            standby = other.start_scheduler()
            wait_until(lambda: standby.state in {"standby", "leading"})
            wait_until(lambda: standby.state == "leading", 0.8 + 1 + PROMPT)
            assert standby.stop(LIMIT)
            stop.cancel()
        # It was stopped and has lost its lease: either ends it.
        with suppress(LeadershipLost):
            runner.result()

    @pytest.mark.parametrize("change", CHANGES)
    def test_a_leader_hears_at_once_of_what_was(
        self, engine: EngineHarness, store: Store, other: Store, change: str
    ) -> None:
        stop = StopToken()
        runner = Background(lambda: store.run_schedules(stop))
        store.schedule("another", "@every 30d", "q", None)
        _lateness(engine, other, change)  # it leads
        # On a busy machine one that was woken may be late, too, but not each time.
        late = [_lateness(engine, other, change)]
        while late[-1] >= timedelta(seconds=1) and len(late) < ROUNDS:
            late.append(_lateness(engine, other, change))
        assert late[-1] < timedelta(seconds=1), late
        stop.cancel()
        runner.result(PROMPT)


def _end_of_lease(engine: EngineHarness, other: Store) -> datetime | None:
    """Return when the lease ends that somebody holds, unless it is renewed, if that is told."""
    before, stop = engine.now(), StopToken()
    comer = Background(lambda: other.run_schedules(stop))
    try:
        comer.result(PROMPT)
    except LeadershipLost as lost:
        return None if lost.retry_after is None else before + timedelta(seconds=lost.retry_after)
    finally:
        stop.cancel()
    raise AssertionError("nobody leads")


def _lateness(engine: EngineHarness, store: Store, change: str) -> timedelta:
    """Return how late a leader fires that learns of a schedule shortly before its boundary."""
    prepare, make = CHANGES[change]
    lead = timedelta(seconds=0.5)
    while True:
        soon = engine.now() + lead
        # This has the leader look; who hears nothing sleeps for 2 s from then on.
        prepare(store, soon)
        fall_asleep()
        make(store, soon)
        if engine.now() < soon:
            break
        lead *= 2  # the machine is too slow for so little time
    while True:
        (job,) = store.queue("q").claim_wait("worker", timeout=LIMIT)
        assert job.ack()
        if job.scheduled_for == soon:
            return job.enqueued_at - soon
