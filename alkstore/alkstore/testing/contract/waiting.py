"""Section 5: who waits for a job sleeps until there is one."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from alkstore.stop_token import StopToken
from alkstore.testing.contract.base import (
    LIMIT,
    PROMPT,
    Background,
    Contract,
    claim,
    fall_asleep,
    wait_until,
)
from alkstore.testing.harness import EngineHarness
from alkstore.traits import JobHandle, Queue, Store


def _in_transaction(store: Store, queue: Queue) -> None:
    with store.transaction() as tx:
        store.enqueue_tx(tx, queue.name, 1)


CAUSES: dict[str, Callable[[Store, Queue], object]] = {
    "an enqueue": lambda _, queue: queue.enqueue(1),
    "a bulk enqueue": lambda _, queue: queue.enqueue_many([1, 2]),
    "an enqueue in a transaction": _in_transaction,
}


class WaitingContract(Contract):
    """`claim_wait` and `jobs` park instead of polling."""

    def test_it_returns_at_once_what_is_there(self, queue: Queue) -> None:
        jobs = queue.enqueue_many(range(3))
        assert [handle.id for handle in queue.claim_wait("worker", 2)] == jobs[:2]

    def test_it_returns_nothing_when_the_time_is_up(self, queue: Queue) -> None:
        assert queue.claim_wait("worker", timeout=0) == []
        begin = time.monotonic()
        assert queue.claim_wait("worker", timeout=0.1) == []
        assert time.monotonic() - begin >= 0.1

    @pytest.mark.parametrize("cause", CAUSES.values(), ids=CAUSES)
    def test_it_is_woken_from_another_process(
        self, other: Store, queue: Queue, cause: Callable[[Store, Queue], object]
    ) -> None:
        waiter = Background(lambda: queue.claim_wait("worker", timeout=LIMIT))
        fall_asleep()
        cause(other, other.queue("mail"))
        assert len(waiter.result(PROMPT)) == 1

    @pytest.mark.parametrize(
        "settle",
        [lambda held: held.release(), lambda held: held.retry("again", 0)],
        ids=["a release", "a retry"],
    )
    def test_a_job_that_comes_back_wakes_it(
        self, other: Store, queue: Queue, settle: Callable[[JobHandle], bool]
    ) -> None:
        job = queue.enqueue(1)
        held = claim(other.queue("mail"))
        waiter = Background(lambda: queue.claim_wait("worker", timeout=LIMIT))
        fall_asleep()
        assert settle(held)
        assert [handle.id for handle in waiter.result(PROMPT)] == [job]

    def test_a_requeued_job_wakes_it(self, queue: Queue) -> None:
        job = queue.enqueue(1)
        assert claim(queue).fail("x")
        waiter = Background(lambda: queue.claim_wait("worker", timeout=LIMIT))
        fall_asleep()
        assert queue.requeue([job]) == 1
        assert [handle.id for handle in waiter.result(PROMPT)] == [job]

    def test_it_returns_what_becomes_due(self, engine: EngineHarness, queue: Queue) -> None:
        job = queue.enqueue(1, delay=3600)
        waiter = Background(lambda: queue.claim_wait("worker", timeout=LIMIT))
        fall_asleep()
        assert waiter.running
        engine.advance(3600)
        assert [handle.id for handle in waiter.result()] == [job]

    def test_it_returns_what_lapses(self, engine: EngineHarness, queue: Queue) -> None:
        job = queue.enqueue(1)
        claim(queue)
        waiter = Background(lambda: queue.claim_wait("worker", timeout=LIMIT))
        fall_asleep()
        assert waiter.running
        engine.advance(301)
        assert [handle.id for handle in waiter.result()] == [job]

    def test_jobs_are_iterated_over_until_the_stop(self, queue: Queue) -> None:
        stop = StopToken()
        jobs = queue.enqueue_many(range(3))
        done: list[int] = []
        for handle in queue.jobs("worker", stop=stop):
            done.append(handle.id)
            assert handle.ack()
            if len(done) == len(jobs):
                stop.cancel()
        assert done == jobs

    def test_an_iteration_claims_one_job_at_a_time(self, other: Store, queue: Queue) -> None:
        stop = StopToken()
        jobs = queue.enqueue_many(range(4))
        for number, handle in enumerate(queue.jobs("worker", stop=stop)):
            assert handle.id == jobs[number]
            stats = other.queue("mail").stats()
            assert (stats.ready, stats.running) == (3 - number, 1)
            if number == 1:
                stop.cancel()
                # What it has not come to is for anybody.
                rest = other.queue("mail").claim("another", 10)
                assert [later.id for later in rest] == jobs[2:]
            assert handle.ack()

    def test_an_iteration_that_waits_is_woken_and_goes_on(self, other: Store, queue: Queue) -> None:
        stop = StopToken()
        done: list[int] = []

        def work() -> None:
            for handle in queue.jobs("worker", stop=stop):
                assert handle.ack()
                done.append(handle.id)

        iteration = Background(work)
        jobs: list[int] = []
        for _ in range(3):
            fall_asleep()
            assert iteration.running
            jobs.append(other.queue("mail").enqueue(1))
            wait_until(lambda: done == jobs, PROMPT)
        stop.cancel()
        iteration.result(PROMPT)

    def test_a_stop_ends_an_iteration_that_waits(self, queue: Queue) -> None:
        stop = StopToken()
        iteration = Background(lambda: list(queue.jobs("worker", stop=stop)))
        fall_asleep()
        stop.cancel()
        assert iteration.result(PROMPT) == []

    def test_a_stop_that_came_first_claims_nothing(self, queue: Queue) -> None:
        stop = StopToken()
        stop.cancel()
        queue.enqueue(1)
        assert queue.claim_wait("worker", stop=stop) == []
        assert queue.stats().ready == 1
