"""Section 5: what becomes of a claimed job, and stale handles."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from alkstore.error_text import MAX_ERROR_CHARACTERS, error_text
from alkstore.errors import InvalidOption
from alkstore.testing.contract.base import claim, live, spanning
from alkstore.testing.contract.settling_many import (
    HARDSHIPS,
    LATER_CLAIMS,
    SettlingManyContract,
    every_loss,
)
from alkstore.testing.harness import EngineHarness
from alkstore.traits import JobHandle, Queue, Store

CALLS: dict[str, Callable[[JobHandle], bool]] = {
    "ack": lambda handle: handle.ack(),
    "retry": lambda handle: handle.retry("x"),
    "retry, delay": lambda handle: handle.retry("x", 5),
    "fail": lambda handle: handle.fail("x"),
    "release": lambda handle: handle.release(),
    "heartbeat": lambda handle: handle.heartbeat(),
    "heartbeat, extend": lambda handle: handle.heartbeat(900),
}
every_call = pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)


HAPPENINGS: dict[str, Callable[[Queue, JobHandle], object]] = {
    "a heartbeat": lambda _, handle: handle.heartbeat(900),
    "heartbeat_many": lambda queue, handle: queue.heartbeat_many([handle], at_least=900),
    "a release": lambda _, handle: handle.release(),
    "a retry": lambda _, handle: handle.retry("x"),
    "a retry at once": lambda _, handle: handle.retry("x", 0),
    "a requeue": lambda queue, handle: handle.fail("x") and queue.requeue([handle.id]),
}
ENDS: dict[str, Callable[[JobHandle, object], bool]] = {
    "fail": lambda handle, error: handle.fail(error),
    "retry": lambda handle, error: handle.retry(error),
    "retry, delay": lambda handle, error: handle.retry(error, 5),
}
"""What makes a dead letter of a job in its last attempt."""

LASTING = (
    "queue", "raw", "priority", "max_attempts", "visibility_timeout", "base_backoff", "schedule",
    "scheduled_for", "enqueued_at",
)  # fmt: skip
"""What of a job nothing changes."""


class SettlingContract(SettlingManyContract):
    """A settling call ends its own claim, and no other."""

    def test_an_acked_job_never_runs_again(
        self, engine: EngineHarness, store: Store, queue: Queue, held: JobHandle
    ) -> None:
        assert held.ack()
        assert (held.settled, held.lost) == (True, False)
        engine.advance(100_000)
        assert queue.claim("worker") == []
        assert (queue.size(), queue.dead(), store.get_job(held.id)) == (0, [], None)

    @pytest.mark.parametrize("delay", [0, 30, 0.5, timedelta(hours=7)])
    def test_a_retry_with_a_delay_is_due_after_it(
        self, engine: EngineHarness, store: Store, held: JobHandle, delay: Any
    ) -> None:
        engine.advance(7)
        with spanning(engine) as span:
            assert held.retry(ValueError("smtp"), delay)
        job = live(store, held.id)
        assert (job.state, job.attempts, job.run_at in span + delay) == ("pending", 1, True)
        assert (job.worker_id, job.claim_expires_at) == (None, None)
        assert held.settled

    def test_a_retry_without_attempts_left_is_a_dead_letter_with_that_error(
        self, engine: EngineHarness, store: Store
    ) -> None:
        queue = store.queue("mail", max_attempts=1)
        job = queue.enqueue("x", priority=4)
        with spanning(engine) as span:
            assert claim(queue).retry(ValueError("smtp is away"), 5)
        (letter,) = queue.dead()
        assert (letter.id, letter.queue, letter.error) == (job, "mail", "smtp is away")
        assert (letter.attempts, letter.max_attempts, letter.priority) == (1, 1, 4)
        assert letter.died_at in span
        assert store.get_job(job) is None

    def test_a_failed_job_is_dead_at_once_whatever_its_budget(
        self, queue: Queue, held: JobHandle
    ) -> None:
        assert held.fail("no such customer")
        (letter,) = queue.dead()
        assert (letter.id, letter.error, letter.attempts) == (held.id, "no such customer", 1)
        assert queue.size() == 0

    @pytest.mark.parametrize("end", ENDS.values(), ids=ENDS)
    @pytest.mark.parametrize(
        "text", ["a\0b", "a\ud800b\udfff", "a" * 1_000_000], ids=["NUL", "surrogates", "endless"]
    )
    def test_the_text_of_an_error_has_no_nul_no_lone_surrogate_and_an_end(
        self, queue: Queue, end: Callable[[JobHandle, object], bool], text: str
    ) -> None:
        for error in (text, ValueError(text)):
            queue.enqueue(1, max_attempts=1)
            assert end(claim(queue), error)
            (letter,) = queue.dead()
            assert letter.error == error_text(error)
            assert "\0" not in letter.error
            assert letter.error.encode("utf-8").startswith(b"a")
            assert len(letter.error) <= MAX_ERROR_CHARACTERS
            assert queue.purge() == 1

    def test_a_released_job_is_due_as_before_with_the_attempt_given_back(
        self, engine: EngineHarness, store: Store, queue: Queue
    ) -> None:
        first = queue.enqueue(1, run_at=engine.now() - timedelta(hours=1))
        second = queue.enqueue(2, run_at=engine.now() - timedelta(minutes=1))
        handle = claim(queue)
        before = live(store, first).run_at
        assert handle.release()
        job = live(store, first)
        assert (job.state, job.attempts, job.run_at) == ("pending", 0, before)
        assert (job.worker_id, job.claim_expires_at) == (None, None)
        assert [again.id for again in queue.claim("worker", 2)] == [first, second]

    @pytest.mark.parametrize("happens", HAPPENINGS.values(), ids=HAPPENINGS)
    def test_a_fired_job_keeps_what_it_is_whatever_happens_to_it(
        self,
        engine: EngineHarness,
        store: Store,
        happens: Callable[[Queue, JobHandle], object],
    ) -> None:
        queue = store.queue("mail")
        store.schedule("s", "@every 1h", "mail", [1], priority=4, expires=900, max_attempts=7)
        engine.advance(3601)
        assert engine.tick(store) == 1
        handle = claim(queue)
        before = live(store, handle.id)
        assert (before.schedule, before.scheduled_for is None) == ("s", False)
        assert happens(queue, handle)
        after = live(store, handle.id)
        assert [getattr(after, name) for name in LASTING] == [
            getattr(before, name) for name in LASTING
        ]
        # A dead letter does not expire, and so neither does what has been one.
        was_dead = happens is HAPPENINGS["a requeue"]
        assert after.expires_at == (None if was_dead else before.expires_at)

    def test_a_release_gives_back_one_attempt_and_no_other(
        self, store: Store, queue: Queue, held: JobHandle
    ) -> None:
        assert held.retry("x", 0)
        again = claim(queue)
        assert (again.attempt, again.release()) == (2, True)
        assert live(store, held.id).attempts == 1
        assert claim(queue).attempt == 2

    def test_a_heartbeat_holds_the_claim_from_now(
        self, engine: EngineHarness, store: Store, queue: Queue, held: JobHandle
    ) -> None:
        engine.advance(200)
        with spanning(engine) as span:
            assert held.heartbeat()
        assert live(store, held.id).claim_expires_at in span + 300
        engine.advance(250)
        assert queue.claim("worker") == []
        with spanning(engine) as span:
            assert held.heartbeat(timedelta(seconds=20))
        assert live(store, held.id).claim_expires_at in span + 20
        assert not held.settled

    @pytest.mark.parametrize("wrong", [-1, "5", float("nan"), True])
    def test_an_impossible_duration_is_refused_and_the_claim_stays(
        self, store: Store, held: JobHandle, wrong: Any
    ) -> None:
        before = store.get_job(held.id)
        with pytest.raises(InvalidOption):
            held.retry("x", wrong)
        with pytest.raises(InvalidOption):
            held.heartbeat(wrong)
        assert store.get_job(held.id) == before
        assert not held.settled

    @pytest.mark.parametrize("wrong", [-1, "5", float("nan"), True])
    def test_an_impossible_delay_of_the_last_attempt_is_refused_too(
        self, store: Store, queue: Queue, wrong: Any
    ) -> None:
        job = queue.enqueue(1, max_attempts=1)
        with pytest.raises(InvalidOption):
            claim(queue).retry("x", wrong)
        assert (live(store, job).state, queue.dead()) == ("processing", [])

    @every_call
    @pytest.mark.parametrize("options", HARDSHIPS.values(), ids=HARDSHIPS)
    def test_a_claim_that_lapsed_but_that_nobody_took_is_still_the_holders(
        self,
        engine: EngineHarness,
        store: Store,
        call: Callable[[JobHandle], bool],
        options: Any,
    ) -> None:
        queue = store.queue("mail", visibility_timeout=10)
        queue.enqueue(1, **options)
        handle = claim(queue)
        engine.advance(60)
        assert call(handle)

    @every_call
    def test_a_lapsed_claim_is_the_holders_though_others_of_its_queue_were_taken(
        self,
        engine: EngineHarness,
        store: Store,
        other: Store,
        call: Callable[[JobHandle], bool],
    ) -> None:
        queue = store.queue("mail", visibility_timeout=10)
        queue.enqueue_many(range(3))
        handles = queue.claim("worker", 3)
        engine.advance(60)
        taken = claim(other.queue("mail"))
        assert [call(handle) for handle in handles] == [handle.id != taken.id for handle in handles]
        assert taken.ack()

    @pytest.mark.parametrize("how", ["alone", "many"])
    def test_a_heartbeat_after_a_lapse_holds_the_job_though_others_of_its_queue_were_taken(
        self, engine: EngineHarness, store: Store, other: Store, how: str
    ) -> None:
        queue = store.queue("mail", visibility_timeout=10)
        queue.enqueue_many(range(3))
        handles = queue.claim("worker", 3)
        engine.advance(60)
        taken = claim(other.queue("mail"))
        held, given_up = (handle for handle in handles if handle.id != taken.id)
        assert queue.heartbeat_many([held]) == 1 if how == "many" else held.heartbeat()
        rest = other.queue("mail").claim("worker", 3)
        assert [handle.id for handle in rest] == [given_up.id]
        assert held.ack()

    @every_call
    @pytest.mark.parametrize("then", LATER_CLAIMS.values(), ids=LATER_CLAIMS)
    def test_a_stale_handle_never_touches_a_later_claim_of_its_job(
        self,
        engine: EngineHarness,
        store: Store,
        queue: Queue,
        held: JobHandle,
        call: Callable[[JobHandle], bool],
        then: Callable[[EngineHarness, Queue, JobHandle], None],
    ) -> None:
        then(engine, queue, held)
        before = store.get_job(held.id)
        assert not call(held)
        assert store.get_job(held.id) == before
        assert queue.dead() == []

    @every_call
    @every_loss
    def test_a_handle_learns_by_any_call_that_its_claim_was_lost(
        self,
        engine: EngineHarness,
        store: Store,
        queue: Queue,
        call: Callable[[JobHandle], bool],
        lose: Callable[[EngineHarness, Queue], JobHandle],
    ) -> None:
        handle = lose(engine, queue)
        before = store.get_job(handle.id), queue.dead()
        assert not handle.lost  # nobody has told it
        for _ in range(2):
            assert not call(handle)
            assert (handle.lost, handle.settled) == (True, False)
        assert (store.get_job(handle.id), queue.dead()) == before

    @every_call
    def test_a_second_settling_call_is_false(
        self, queue: Queue, held: JobHandle, call: Callable[[JobHandle], bool]
    ) -> None:
        assert held.ack()
        assert not call(held)
        assert (queue.size(), queue.dead()) == (0, [])
        assert (held.settled, held.lost) == (True, False)
