"""Section 5: claims, in which order and of what."""

from __future__ import annotations

import threading
from datetime import timedelta
from typing import Any

import pytest

from alkstore.errors import InvalidOption
from alkstore.testing.contract.base import LIMIT, Background, Contract, claim, live, spanning
from alkstore.testing.harness import EngineHarness
from alkstore.traits import Queue, Store

every_limit = pytest.mark.parametrize("limit", [1, 10])
"""Of how many jobs a claim asks for what it meets on its way must not depend."""


class ClaimsContract(Contract):
    """A claim takes what is due, in order, for one claimer alone."""

    def test_an_empty_queue_gives_nothing(self, queue: Queue) -> None:
        assert queue.claim("worker") == []

    def test_a_handle_tells_of_its_job(self, engine: EngineHarness, queue: Queue) -> None:
        with spanning(engine) as span:
            job = queue.enqueue([1], max_attempts=4)
        handle = claim(queue)
        assert (handle.id, handle.queue, handle.payload, handle.raw) == (job, "mail", [1], b"[1]")
        assert (handle.attempt, handle.max_attempts, handle.visibility_timeout) == (1, 4, 300)
        assert handle.enqueued_at in span
        assert (handle.schedule, handle.scheduled_for) == (None, None)
        assert (handle.settled, handle.lost) == (False, False)

    def test_the_highest_priority_comes_first_then_the_earliest_then_the_lowest_id(
        self, engine: EngineHarness, queue: Queue
    ) -> None:
        now = engine.now()
        low = queue.enqueue("low", priority=-1, run_at=now - timedelta(hours=9))
        late = queue.enqueue("late", run_at=now - timedelta(hours=1))
        early = queue.enqueue("early", run_at=now - timedelta(hours=2))
        twin = queue.enqueue("twin", run_at=now - timedelta(hours=2))
        high = queue.enqueue("high", priority=1)
        claimed = [handle.id for handle in queue.claim("worker", 10)]
        assert claimed == [high, early, twin, late, low]

    def test_the_order_holds_across_claims_one_by_one(self, queue: Queue) -> None:
        jobs = [queue.enqueue(n, priority=n % 3) for n in range(9)]
        expected = sorted(jobs, key=lambda job: (-(jobs.index(job) % 3), job))
        assert [claim(queue).id for _ in jobs] == expected

    @pytest.mark.parametrize("limit", [1, 2, 3])
    def test_what_was_due_first_is_claimed_first_though_it_was_enqueued_last(
        self, engine: EngineHarness, queue: Queue, limit: int
    ) -> None:
        now = engine.now()
        jobs = [queue.enqueue(n, run_at=now - timedelta(minutes=n)) for n in range(12)]
        claimed: list[int] = []
        while handles := queue.claim("worker", limit):
            claimed += [handle.id for handle in handles]
        assert claimed == jobs[::-1]

    def test_a_limit_is_obeyed(self, queue: Queue) -> None:
        jobs = queue.enqueue_many(range(5))
        assert [handle.id for handle in queue.claim("worker", 3)] == jobs[:3]
        assert [handle.id for handle in queue.claim("worker", 3)] == jobs[3:]

    def test_a_claim_of_hundreds_takes_as_many_as_it_asked_for(self, queue: Queue) -> None:
        jobs = queue.enqueue_many(range(1300))
        for limit, expected in ((150, jobs[:150]), (1100, jobs[150:1250]), (10_000, jobs[1250:])):
            assert [handle.id for handle in queue.claim("worker", limit)] == expected

    @pytest.mark.parametrize("limit", [0, -1, 10_001, 1.0, "1", None, True])
    def test_a_limit_out_of_range_is_refused(self, queue: Queue, limit: Any) -> None:
        queue.enqueue(1)
        with pytest.raises(InvalidOption):
            queue.claim("worker", limit)
        with pytest.raises(InvalidOption):
            queue.claim_wait("worker", limit, timeout=0)
        assert queue.stats().ready == 1

    def test_a_job_is_not_claimed_before_it_is_due(
        self, engine: EngineHarness, queue: Queue
    ) -> None:
        job = queue.enqueue(1, delay=60)
        assert queue.claim("worker") == []
        engine.advance(30)
        assert queue.claim("worker") == []
        engine.advance(30)
        assert claim(queue).id == job

    def test_a_claim_adds_one_attempt_and_holds_for_the_visibility_timeout(
        self, engine: EngineHarness, store: Store
    ) -> None:
        queue = store.queue("mail", visibility_timeout=20)
        job = queue.enqueue(1)
        with spanning(engine) as span:
            assert claim(queue).attempt == 1
        found = live(store, job)
        assert (found.attempts, found.claim_expires_at in span + 20) == (1, True)
        engine.advance(15)
        assert queue.claim("worker") == []

    @pytest.mark.usefixtures("turns")
    def test_two_claimers_never_get_the_same_job(self, engine: EngineHarness, store: Store) -> None:
        stores = [store, *(engine.open() for _ in range(3))]
        begin, end = threading.Barrier(len(stores)), threading.Barrier(len(stores))
        rounds = [f"round {number}" for number in range(20)]
        jobs = [job for name in rounds for job in store.queue(name).enqueue_many(range(20))]

        def take(of: Store) -> list[int]:
            taken: list[int] = []
            for name in rounds:
                # They come at once, and each for most of what is there.
                begin.wait(LIMIT)
                while handles := of.queue(name).claim("worker", 15):
                    taken += [handle.id for handle in handles]
                end.wait(LIMIT)
            return taken

        takers = [Background(lambda of=each: take(of)) for each in stores]  # type: ignore[misc]
        taken = [job for taker in takers for job in taker.result()]
        assert sorted(taken) == jobs

    def test_a_lapsed_job_is_claimed_again(self, engine: EngineHarness, store: Store) -> None:
        queue = store.queue("mail", visibility_timeout=10)
        job = queue.enqueue(1)
        claim(queue)
        engine.advance(10)
        again = claim(queue)
        assert (again.id, again.attempt) == (job, 2)

    @every_limit
    def test_a_lapsed_job_that_was_taken_over_is_in_the_hands_of_who_took_it(
        self, engine: EngineHarness, store: Store, limit: int
    ) -> None:
        queue = store.queue("mail", visibility_timeout=10)
        job = queue.enqueue(1)
        assert queue.claim("the first", limit)
        engine.advance(10)
        with spanning(engine) as span:
            assert queue.claim("the second", limit)
        found = live(store, job)
        assert (found.worker_id, found.claim_expires_at in span + 10) == ("the second", True)
        assert queue.peek() == [found]

    def test_a_lapsed_job_takes_its_old_place_in_the_order(
        self, engine: EngineHarness, store: Store
    ) -> None:
        queue = store.queue("mail", visibility_timeout=10)
        first = queue.enqueue(1)
        claim(queue)
        second = queue.enqueue(1)
        high = queue.enqueue(1, priority=1)
        engine.advance(11)
        assert [handle.id for handle in queue.claim("worker", 3)] == [high, first, second]

    def test_a_lapsed_job_takes_its_old_place_before_all_that_waits(
        self, engine: EngineHarness, store: Store
    ) -> None:
        queue = store.queue("mail", visibility_timeout=10)
        first, *others = queue.enqueue_many(range(30))
        used_up = queue.enqueue(1, priority=1, max_attempts=1)
        assert [claim(queue).id for _ in range(2)] == [used_up, first]
        engine.advance(11)
        again = claim(queue)
        assert (again.id, again.attempt) == (first, 2)
        assert [letter.id for letter in queue.dead()] == [used_up]
        assert claim(queue).id == others[0]

    @every_limit
    def test_a_lapsed_job_without_attempts_left_becomes_a_dead_letter(
        self, engine: EngineHarness, store: Store, limit: int
    ) -> None:
        queue = store.queue("mail", visibility_timeout=10, max_attempts=2, base_backoff=7)
        job = queue.enqueue("x")
        for _ in range(2):
            claim(queue)
            engine.advance(11)
        with spanning(engine) as span:
            assert queue.claim("worker", limit) == []
        (letter,) = queue.dead()
        assert (letter.id, letter.error) == (job, "max attempts exceeded")
        assert (letter.attempts, letter.max_attempts, letter.payload) == (2, 2, "x")
        assert letter.visibility_timeout == timedelta(seconds=10)
        assert letter.base_backoff == timedelta(seconds=7)
        assert letter.died_at in span
        assert store.get_job(job) is None

    @every_limit
    def test_what_a_claim_finds_used_up_or_expired_is_dead_for_all_when_it_returns(
        self, engine: EngineHarness, store: Store, other: Store, limit: int
    ) -> None:
        queue = store.queue("mail", visibility_timeout=10, max_attempts=1)
        used_up = queue.enqueue_many(range(20), priority=1)
        assert len(queue.claim("worker", 20)) == 20
        expired = queue.enqueue_many(range(20), expires=5)
        engine.advance(11)
        good = queue.enqueue_many(range(2))
        before = other.queue("mail")
        assert (before.dead(), before.size()) == ([], 42)
        assert [handle.id for handle in queue.claim("worker", limit)] == good[:limit]
        errors = {letter.id: letter.error for letter in other.queue("mail").dead()}
        assert errors == {
            **dict.fromkeys(used_up, "max attempts exceeded"),
            **dict.fromkeys(expired, "expired"),
        }
        assert [other.get_job(job) for job in errors] == [None] * 40
        assert other.queue("mail").size() == 2

    @every_limit
    def test_an_expired_job_becomes_a_dead_letter(
        self, engine: EngineHarness, store: Store, queue: Queue, limit: int
    ) -> None:
        job = queue.enqueue("x", expires=60)
        engine.advance(59)
        good = queue.enqueue("y", expires=60)
        engine.advance(1)
        assert [handle.id for handle in queue.claim("worker", limit)] == [good]
        (letter,) = queue.dead()
        assert (letter.id, letter.error, letter.attempts) == (job, "expired", 0)
        assert store.get_job(job) is None

    def test_a_held_job_does_not_expire_in_its_holders_hands(
        self, engine: EngineHarness, queue: Queue
    ) -> None:
        queue.enqueue(1, expires=60)
        handle = claim(queue)
        engine.advance(61)
        assert queue.claim("worker") == []
        assert queue.dead() == []
        assert handle.ack()

    @every_limit
    def test_a_lapsed_job_that_has_expired_becomes_a_dead_letter(
        self, engine: EngineHarness, store: Store, limit: int
    ) -> None:
        queue = store.queue("mail", visibility_timeout=10)
        job = queue.enqueue(1, expires=5)
        claim(queue)
        engine.advance(11)
        assert queue.claim("worker", limit) == []
        (letter,) = queue.dead()
        assert (letter.id, letter.error, letter.attempts) == (job, "expired", 1)

    @every_limit
    def test_a_job_that_lapsed_in_its_last_attempt_died_of_that_though_it_has_expired_too(
        self, engine: EngineHarness, store: Store, limit: int
    ) -> None:
        queue = store.queue("mail", visibility_timeout=10, max_attempts=1)
        queue.enqueue(1, expires=5)
        claim(queue)
        engine.advance(11)
        assert queue.claim("worker", limit) == []
        assert [letter.error for letter in queue.dead()] == ["max attempts exceeded"]

    def test_a_stale_handle_tells_of_its_own_claim(
        self, engine: EngineHarness, store: Store
    ) -> None:
        queue = store.queue("mail", visibility_timeout=10)
        job = queue.enqueue(1)
        stale = claim(queue)
        engine.advance(11)
        assert live(store, job).state == "processing"
        assert claim(queue).attempt == 2
        assert stale.attempt == 1
