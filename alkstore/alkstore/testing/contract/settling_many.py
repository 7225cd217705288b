"""Section 5: claims that are settled many at a time, and by several threads at once."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, cast

import pytest

from alkstore.errors import InvalidOption
from alkstore.memory import MemoryStore
from alkstore.testing.contract.base import (
    LIMIT,
    Background,
    Contract,
    claim,
    live,
    refused,
    spanning,
)
from alkstore.testing.harness import EngineHarness
from alkstore.traits import JobHandle, Queue, Store

MANY_CALLS: dict[str, Callable[[Queue, list[JobHandle]], int]] = {
    "ack_many": lambda queue, handles: queue.ack_many(handles),
    "heartbeat_many": lambda queue, handles: queue.heartbeat_many(handles),
}
every_many_call = pytest.mark.parametrize("call", MANY_CALLS.values(), ids=MANY_CALLS)

PAIRS: dict[str, tuple[Callable[[JobHandle], bool], Callable[[JobHandle], bool]]] = {
    "ack, ack": (lambda handle: handle.ack(), lambda handle: handle.ack()),
    "ack, fail": (lambda handle: handle.ack(), lambda handle: handle.fail("x")),
    "fail, fail": (lambda handle: handle.fail("x"), lambda handle: handle.fail("x")),
    "retry, retry": (lambda handle: handle.retry("x"), lambda handle: handle.retry("x")),
    "release, ack": (lambda handle: handle.release(), lambda handle: handle.ack()),
}
"""What two threads do with one claim at once."""


HARDSHIPS: dict[str, dict[str, Any]] = {
    "ordinary": {},
    "used up": {"max_attempts": 1},
    "expired": {"expires": 20},
}
"""Options of jobs whose claims lapse: the next claim would take the first, and bury the others."""


def _lapse_and_claim(engine: EngineHarness, queue: Queue, _: JobHandle) -> None:
    engine.advance(301)
    assert queue.claim("worker")


def _release_and_claim(_: EngineHarness, queue: Queue, handle: JobHandle) -> None:
    assert handle.release()
    assert queue.claim("worker")


def _retry_and_claim(_: EngineHarness, queue: Queue, handle: JobHandle) -> None:
    assert handle.retry("x", 0)
    assert queue.claim("worker")


def _requeue_and_claim(_: EngineHarness, queue: Queue, handle: JobHandle) -> None:
    assert handle.fail("x")
    assert queue.requeue([handle.id]) == 1
    assert queue.claim("worker")


LATER_CLAIMS = {
    "a lapse": _lapse_and_claim,
    "a release": _release_and_claim,
    "a retry": _retry_and_claim,
    "a requeue": _requeue_and_claim,
}


def _cancelled(_: EngineHarness, queue: Queue) -> JobHandle:
    queue.enqueue(1)
    handle = claim(queue)
    assert queue.cancel(handle.id)
    return handle


def _taken_over(engine: EngineHarness, queue: Queue) -> JobHandle:
    queue.enqueue(1)
    handle = claim(queue)
    engine.advance(301)
    assert claim(queue).id == handle.id
    return handle


def _used_up(engine: EngineHarness, queue: Queue) -> JobHandle:
    queue.enqueue(1, max_attempts=1)
    handle = claim(queue)
    engine.advance(301)
    assert queue.claim("worker") == []
    return handle


def _expired(engine: EngineHarness, queue: Queue) -> JobHandle:
    queue.enqueue(1, expires=20)
    handle = claim(queue)
    engine.advance(301)
    assert queue.claim("worker") == []
    return handle


LOSSES: dict[str, Callable[[EngineHarness, Queue], JobHandle]] = {
    "cancelled": _cancelled,
    "taken over": _taken_over,
    "dead, used up": _used_up,
    "dead, expired": _expired,
}
"""How a claim is lost that its holder has not settled: each returns its handle."""
every_loss = pytest.mark.parametrize("lose", LOSSES.values(), ids=LOSSES)


class SettlingManyContract(Contract):
    """Many claims at a time are settled as each of them alone, and each of them once."""

    @pytest.fixture
    def held(self, queue: Queue) -> JobHandle:
        """Return the handle of a job that was claimed for the first time."""
        queue.enqueue({"n": 1})
        return claim(queue)

    def test_ack_many_finishes_those_that_are_still_held(self, store: Store, queue: Queue) -> None:
        jobs = queue.enqueue_many(range(4))
        handles = queue.claim("worker", 4)
        assert handles[0].release()
        assert queue.cancel(jobs[1])
        assert queue.ack_many(handles) == 2
        assert [handle.settled for handle in handles] == [True, False, True, True]
        assert [handle.lost for handle in handles] == [False, True, False, False]
        assert queue.ack_many(handles) == 0
        assert queue.ack_many([]) == 0
        assert queue.size() == 1
        assert store.get_job(jobs[0]) is not None

    @every_many_call
    def test_a_handle_that_is_given_twice_counts_once(
        self, queue: Queue, call: Callable[[Queue, list[JobHandle]], int]
    ) -> None:
        queue.enqueue_many(range(2))
        first, second = queue.claim("worker", 2)
        assert call(queue, [first, second, first]) == 2

    @every_many_call
    def test_handles_count_whichever_store_on_the_same_data_has_claimed(
        self, store: Store, other: Store, call: Callable[[Queue, list[JobHandle]], int]
    ) -> None:
        handles = []
        for who in (store, other):
            who.queue("mail").enqueue(1)
            handles.append(claim(who.queue("mail")))
        assert call(other.queue("mail"), handles) == 2
        assert not any(handle.lost for handle in handles)

    @every_many_call
    @pytest.mark.parametrize("then", LATER_CLAIMS.values(), ids=LATER_CLAIMS)
    def test_a_stale_handle_among_many_never_touches_a_later_claim_of_its_job(
        self,
        engine: EngineHarness,
        store: Store,
        queue: Queue,
        held: JobHandle,
        call: Callable[[Queue, list[JobHandle]], int],
        then: Callable[[EngineHarness, Queue, JobHandle], None],
    ) -> None:
        then(engine, queue, held)
        before = live(store, held.id)
        queue.enqueue(2)
        good = claim(queue)
        assert call(queue, [held, good]) == 1
        assert store.get_job(held.id) == before
        assert not good.lost

    @every_many_call
    @every_loss
    def test_a_lost_claim_among_many_is_told_so_and_changes_nothing(
        self,
        engine: EngineHarness,
        store: Store,
        queue: Queue,
        call: Callable[[Queue, list[JobHandle]], int],
        lose: Callable[[EngineHarness, Queue], JobHandle],
    ) -> None:
        lost = lose(engine, queue)
        before = store.get_job(lost.id), queue.dead()
        queue.enqueue(2)
        good = claim(queue)
        assert call(queue, [lost, good]) == 1
        assert (store.get_job(lost.id), queue.dead()) == before
        assert (lost.lost, lost.settled, good.lost) == (True, False, False)

    @every_many_call
    @pytest.mark.parametrize("options", HARDSHIPS.values(), ids=HARDSHIPS)
    def test_many_claims_that_lapsed_but_that_nobody_took_are_still_the_holders(
        self,
        engine: EngineHarness,
        store: Store,
        other: Store,
        call: Callable[[Queue, list[JobHandle]], int],
        options: Any,
    ) -> None:
        queue = store.queue("mail", visibility_timeout=10)
        queue.enqueue_many(range(3), **options)
        handles = queue.claim("worker", 3)
        engine.advance(60)
        assert call(queue, handles) == 3
        # Finished, or held anew: nobody gets it, and it does not die.
        assert other.queue("mail").claim("worker", 3) == []
        assert queue.dead() == []
        assert not any(handle.lost for handle in handles)
        if queue.size():
            assert queue.ack_many(handles) == 3
        assert (queue.size(), [handle.settled for handle in handles]) == (0, [True] * 3)

    @every_many_call
    def test_of_many_lapsed_claims_those_are_the_holders_that_nobody_took(
        self,
        engine: EngineHarness,
        store: Store,
        other: Store,
        call: Callable[[Queue, list[JobHandle]], int],
    ) -> None:
        queue = store.queue("mail", visibility_timeout=10)
        queue.enqueue_many(range(3))
        handles = queue.claim("worker", 3)
        engine.advance(60)
        taken = claim(other.queue("mail"))
        before = live(store, taken.id)
        assert call(queue, handles) == 2
        assert [handle.lost for handle in handles] == [handle.id == taken.id for handle in handles]
        assert live(store, taken.id) == before
        assert taken.ack()

    @every_many_call
    def test_a_handle_of_other_data_is_refused_and_nothing_changes(
        self,
        store: Store,
        queue: Queue,
        held: JobHandle,
        call: Callable[[Queue, list[JobHandle]], int],
    ) -> None:
        with MemoryStore() as elsewhere:
            elsewhere.queue("mail").enqueue(1)
            foreign = claim(elsewhere.queue("mail"))
            before = store.get_job(held.id), elsewhere.get_job(foreign.id)
            for handles in ([foreign], [held, foreign]):
                with refused(InvalidOption, handles):
                    call(queue, handles)
            assert (store.get_job(held.id), elsewhere.get_job(foreign.id)) == before
            assert not any(flag for one in (foreign, held) for flag in (one.lost, one.settled))
            assert foreign.ack()
            store.close()  # what asks for the data now is told that
            with refused(InvalidOption, foreign):
                call(queue, [foreign])

    @pytest.mark.usefixtures("turns")
    @pytest.mark.parametrize("calls", PAIRS.values(), ids=PAIRS)
    def test_of_two_who_settle_one_claim_at_once_one_succeeds(
        self, queue: Queue, calls: tuple[Callable[[JobHandle], bool], Callable[[JobHandle], bool]]
    ) -> None:
        rounds = 100
        queue.enqueue_many(range(rounds))
        handles = queue.claim("worker", rounds)
        begin = threading.Barrier(len(calls))

        def settle(call: Callable[[JobHandle], bool]) -> list[bool]:
            results = []
            for handle in handles:
                begin.wait(LIMIT)
                results.append(call(handle))
            return results

        settlers = [Background(lambda call=each: settle(call)) for each in calls]  # type: ignore[misc]
        results = zip(*(settler.result() for settler in settlers), strict=True)
        assert [sorted(result) for result in results] == [[False, True]] * rounds

    @pytest.mark.usefixtures("turns")
    def test_of_two_who_settle_the_same_claims_at_once_one_succeeds_with_each(
        self, queue: Queue
    ) -> None:
        rounds, size = 40, 5
        queue.enqueue_many(range(rounds * size))
        batches = [queue.claim("worker", size) for _ in range(rounds)]
        begin = threading.Barrier(2)

        def settle(step: int) -> list[int]:
            counts = []
            for batch in batches:
                begin.wait(LIMIT)
                counts.append(queue.ack_many(batch[::step]))
            return counts

        settlers = [Background(lambda step=step: settle(step)) for step in (1, -1)]  # type: ignore[misc]
        counts = zip(*(settler.result() for settler in settlers), strict=True)
        assert [sum(count) for count in counts] == [size] * rounds
        assert queue.size() == 0

    def test_a_handle_that_is_not_of_this_queue_is_refused(
        self, store: Store, queue: Queue, held: JobHandle
    ) -> None:
        another = store.queue("another")
        another.enqueue(1)
        for stranger in (claim(another), held.id, None):
            with refused(InvalidOption, stranger):
                queue.ack_many([held, cast("JobHandle", stranger)])
            with refused(InvalidOption, stranger):
                queue.heartbeat_many([held, cast("JobHandle", stranger)])
        assert (queue.stats().running, another.stats().running) == (1, 1)

    @every_many_call
    def test_the_refusal_of_a_payload_among_handles_does_not_show_it(
        self, queue: Queue, held: JobHandle, call: Callable[[Queue, list[JobHandle]], int]
    ) -> None:
        with pytest.raises(InvalidOption, match="not a dict") as refusal:
            call(queue, [held, cast("JobHandle", {"secret": "payload"})])
        assert "secret" not in str(refusal.value)
        assert not held.lost

    def test_heartbeat_many_extends_those_that_are_still_held(
        self, engine: EngineHarness, store: Store
    ) -> None:
        store.queue("mail", visibility_timeout=10).enqueue(1)
        store.queue("mail", visibility_timeout=100).enqueue(2)
        queue = store.queue("mail")
        gone = queue.enqueue(3)
        handles = queue.claim("worker", 3)
        assert queue.cancel(gone)
        with spanning(engine) as span:
            assert queue.heartbeat_many(handles, at_least=50) == 2
        for handle, held_for in zip(handles, (50, 100), strict=False):
            assert live(store, handle.id).claim_expires_at in span + held_for
        assert [handle.lost for handle in handles] == [False, False, True]
