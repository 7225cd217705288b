"""Section 5: enqueueing, reading, cancelling and counting jobs."""

from __future__ import annotations

import threading
from datetime import timedelta
from typing import Any, cast

import pytest

from alkstore._typing import override
from alkstore.codec import JsonCodec
from alkstore.errors import EncodeError, InvalidOption
from alkstore.testing.contract.base import Background, claim, live, seen_during, spanning
from alkstore.testing.contract.peeking import PeekingContract
from alkstore.testing.harness import EngineHarness
from alkstore.traits import Queue, Store


class LookingCodec(JsonCodec):
    """JSON; now and then it looks how many jobs *queue* has."""

    def __init__(self, queue: Queue) -> None:
        self._queue = queue
        self.seen: set[int] = set()

    @override
    def encode(self, value: Any) -> bytes:
        if value % 500 == 499:
            self.seen.add(self._queue.size())
        return super().encode(value)


class QueuesContract(PeekingContract):
    """A job that was enqueued is there until it is settled."""

    def test_ids_are_never_used_again(self, store: Store, queue: Queue) -> None:
        first = queue.enqueue(1)
        assert claim(queue).ack()
        second = store.queue("another").enqueue(1)
        assert store.queue("another").cancel(second)
        third = queue.enqueue(1)
        assert first < second < third

    def test_another_process_sees_a_job_at_once(self, other: Store, queue: Queue) -> None:
        job = queue.enqueue({"n": 1})
        assert live(other, job).payload == {"n": 1}
        assert claim(other.queue("mail")).id == job

    def test_enqueue_many_stores_all_in_order_with_the_same_options(
        self, engine: EngineHarness, store: Store, queue: Queue
    ) -> None:
        with spanning(engine) as span:
            jobs = queue.enqueue_many((n for n in range(5)), delay=9, priority=2, max_attempts=4)
        assert jobs == sorted(set(jobs))
        for number, job in enumerate(jobs):
            found = live(store, job)
            assert (found.payload, found.priority, found.max_attempts) == (number, 2, 4)
            assert found.run_at in span + 9

    def test_enqueue_many_of_nothing_stores_nothing(self, queue: Queue) -> None:
        assert queue.enqueue_many([]) == []
        assert queue.size() == 0

    def test_enqueue_many_stores_all_or_none(self, queue: Queue) -> None:
        with pytest.raises(EncodeError):
            queue.enqueue_many([1, 2, object()])
        assert queue.size() == 0

    def test_nobody_sees_a_part_of_many_while_the_rest_is_still_encoded(
        self, engine: EngineHarness, other: Store
    ) -> None:
        looking = LookingCodec(other.queue("mail"))
        jobs = engine.open(codec=looking).queue("mail").enqueue_many(range(6000))
        assert looking.seen == {0}
        assert other.queue("mail").size() == len(jobs) == 6000

    def test_nobody_sees_a_part_of_many_while_they_are_stored(
        self, other: Store, queue: Queue
    ) -> None:
        looking = other.queue("mail")
        seen = seen_during(lambda: queue.enqueue_many(range(6000)), looking.size)
        assert seen == [0, 6000]

    @pytest.mark.parametrize("payloads", [None, 5])
    def test_enqueue_many_takes_what_can_be_iterated_over(
        self, queue: Queue, payloads: Any
    ) -> None:
        with pytest.raises(InvalidOption):
            queue.enqueue_many(payloads)

    def test_a_claimed_job_reads_as_processing(
        self, engine: EngineHarness, store: Store, queue: Queue
    ) -> None:
        job = queue.enqueue(1)
        with spanning(engine) as span:
            queue.claim("the worker")
        found = live(store, job)
        assert (found.state, found.worker_id, found.attempts) == ("processing", "the worker", 1)
        assert found.claim_expires_at in span + 300

    def test_there_is_no_job_that_never_was_or_that_ended(self, store: Store, queue: Queue) -> None:
        acked, failed, cancelled = queue.enqueue_many([1, 2, 3])
        for handle in queue.claim("worker", 2):
            assert handle.ack() if handle.id == acked else handle.fail("no")
        assert queue.cancel(cancelled)
        for job in (acked, failed, cancelled, 10**12):
            assert store.get_job(job) is None

    @pytest.mark.parametrize("job_id", [None, "1", 1.0, True])
    def test_an_id_is_an_int(self, store: Store, queue: Queue, job_id: object) -> None:
        for call in (store.get_job, queue.cancel):
            with pytest.raises(InvalidOption):
                call(cast("int", job_id))

    def test_cancel_deletes_a_job_that_waits(self, store: Store, queue: Queue) -> None:
        job, later = queue.enqueue(1), queue.enqueue(1, delay=60)
        assert queue.cancel(job)
        assert queue.cancel(later)
        assert not queue.cancel(job)
        assert queue.claim("worker") == []
        assert queue.dead() == []
        assert store.get_job(later) is None

    def test_cancel_deletes_a_job_that_is_held_and_its_holder_learns_of_it(
        self, queue: Queue
    ) -> None:
        job = queue.enqueue(1)
        handle = claim(queue)
        assert queue.cancel(job)
        assert not handle.heartbeat()
        assert handle.lost
        assert not handle.ack()

    def test_cancel_deletes_a_job_whose_claim_has_lapsed(
        self, engine: EngineHarness, store: Store, queue: Queue
    ) -> None:
        job = queue.enqueue(1)
        handle = claim(queue)
        engine.advance(301)
        assert queue.cancel(job)
        assert store.get_job(job) is None
        assert not handle.ack()
        assert queue.claim("worker") == []

    def test_cancel_touches_jobs_of_its_own_queue_only(self, store: Store, queue: Queue) -> None:
        job = queue.enqueue(1)
        assert not store.queue("another").cancel(job)
        assert store.get_job(job) is not None

    def test_size_counts_live_jobs_in_any_state(self, store: Store, queue: Queue) -> None:
        queue.enqueue_many(range(4))
        queue.enqueue(1, delay=60)
        store.queue("another").enqueue(1)
        first, second = queue.claim("worker", 2)
        assert queue.size() == 5
        assert first.ack()
        assert second.fail("no")
        assert queue.size() == 3

    def test_stats_count_jobs_by_how_they_stand(
        self, engine: EngineHarness, store: Store, queue: Queue
    ) -> None:
        assert queue.stats().oldest_ready_age is None
        queue.enqueue_many(range(4))
        queue.enqueue(1, delay=3600)
        store.queue("another").enqueue(1)
        dead, retried, _held = queue.claim("worker", 3)
        assert dead.fail("no")
        assert retried.retry("again", delay=600)
        engine.advance(30)
        stats = queue.stats()
        assert (stats.ready, stats.delayed, stats.retrying) == (1, 1, 1)
        assert (stats.running, stats.dead) == (1, 1)
        assert stats.oldest_ready_age is not None
        assert timedelta(seconds=30) <= stats.oldest_ready_age < timedelta(seconds=90)
        assert not stats.estimated

    def test_stats_count_a_lapsed_job_as_ready_and_an_expired_one_as_nothing(
        self, engine: EngineHarness, store: Store
    ) -> None:
        queue = store.queue("mail", visibility_timeout=5)
        queue.enqueue(1)
        claim(queue)
        queue.enqueue(1, expires=5)
        engine.advance(6)
        stats = queue.stats()
        assert (stats.ready, stats.running, stats.delayed, stats.dead) == (1, 0, 0, 0)

    def test_stats_count_a_job_that_lapsed_in_its_last_attempt_as_nothing(
        self, engine: EngineHarness, store: Store
    ) -> None:
        queue = store.queue("mail", visibility_timeout=5, max_attempts=1)
        queue.enqueue(1)
        claim(queue)
        engine.advance(6)
        stats = queue.stats()
        assert (stats.ready, stats.running, stats.retrying, stats.dead) == (0, 0, 0, 0)
        assert stats.oldest_ready_age is None
        assert queue.claim("worker") == []
        assert queue.stats().dead == 1

    def test_a_job_is_ready_since_it_is_due_not_since_it_was_enqueued(
        self, engine: EngineHarness, queue: Queue
    ) -> None:
        queue.enqueue(1, delay=3600)
        engine.advance(3630)
        age = queue.stats().oldest_ready_age
        assert age is not None
        assert timedelta(seconds=30) <= age < timedelta(seconds=90)

    def test_the_oldest_that_is_ready_is_the_one_that_is_due_the_longest(
        self, engine: EngineHarness, queue: Queue
    ) -> None:
        queue.enqueue(1)
        engine.advance(1000)
        queue.enqueue(2)
        engine.advance(10)
        age = queue.stats().oldest_ready_age
        assert age is not None
        assert age >= timedelta(seconds=1010)

    def test_an_expired_job_is_a_dead_letter_though_its_delay_is_longer(
        self, engine: EngineHarness, queue: Queue
    ) -> None:
        late = queue.enqueue(1, run_at=engine.now() + timedelta(hours=1), expires=60)
        retried = queue.enqueue(2, expires=60)
        assert claim(queue).retry("again", delay=3600)
        engine.advance(61)
        assert queue.claim("worker") == []
        dead = {letter.id: letter.error for letter in queue.dead()}
        assert dead == {late: "expired", retried: "expired"}

    @pytest.mark.usefixtures("turns")
    def test_one_store_serves_many_threads(self, store: Store) -> None:
        begin = threading.Barrier(8)

        def work(number: int) -> list[int]:
            queue, done = store.queue("mail"), []
            begin.wait()
            for _ in range(20):
                queue.enqueue(number)
                for handle in queue.claim(f"worker {number}"):
                    assert handle.ack()
                    done.append(handle.id)
            return done

        threads = [Background(lambda number=each: work(number)) for each in range(8)]  # type: ignore[misc]
        acked = [job for thread in threads for job in thread.result()]
        left = [handle.id for handle in store.queue("mail").claim("the last", 1000)]
        assert len(acked) + len(left) == len({*acked, *left}) == 160

    def test_enqueue_many_is_built_for_many(self, queue: Queue) -> None:
        jobs = queue.enqueue_many(range(20_000))
        assert len(jobs) == 20_000
        assert jobs == sorted(set(jobs))
        assert queue.size() == 20_000
