"""Section 5 of the contract: which jobs a claim gets, and in which order."""

from __future__ import annotations

from datetime import datetime, timezone

import pytest

from alkstore.traits import Queue
from alkstore_postgres import PostgresStore
from tests.support.job_table import JobTable


def ids(queue: Queue, limit: int = 100) -> list[int]:
    return [handle.id for handle in queue.claim("w", limit)]


def test_fresh_jobs_come_in_the_order_of_their_enqueues(queue: Queue) -> None:
    jobs = [queue.enqueue(n) for n in range(5)]
    assert ids(queue) == jobs


def test_jobs_of_one_moment_come_in_the_order_of_their_ids(queue: Queue) -> None:
    jobs = queue.enqueue_many(range(50), run_at=datetime(2020, 1, 1, tzinfo=timezone.utc))
    assert [job for _ in range(10) for job in ids(queue, 5)] == jobs


def test_the_highest_priority_comes_first_even_when_it_is_due_later(
    queue: Queue, table: JobTable
) -> None:
    low, middle, high = (queue.enqueue(1, priority=p) for p in (-32_768, 0, 32_767))
    for job, due in ((low, -300), (middle, -200), (high, -100)):
        table.move(job, "run_at", due)
    assert ids(queue) == [high, middle, low]


def test_within_a_priority_the_earliest_due_time_comes_first(queue: Queue, table: JobTable) -> None:
    jobs = [queue.enqueue(n) for n in range(4)]
    for job, due in zip(jobs, (-1, -3, -2, -4), strict=True):
        table.move(job, "run_at", due)
    assert ids(queue) == [jobs[3], jobs[1], jobs[2], jobs[0]]


def test_fresh_delayed_retried_released_and_lapsed_jobs_line_up(
    queue: Queue, table: JobTable
) -> None:
    lapsed, released, retried, delayed, fresh, urgent = queue.enqueue_many(range(6))
    held = {handle.id: handle for handle in queue.claim("w", 3)}
    assert set(held) == {lapsed, released, retried}
    assert held[retried].retry("x")
    assert held[released].release()
    table.lapse(lapsed)
    table.set(urgent, "priority", 1)
    dues = ((lapsed, -30), (delayed, -25), (retried, -20), (fresh, -15), (released, -10))
    for job, due in dues:
        table.move(job, "run_at", due)
    assert ids(queue) == [urgent, lapsed, delayed, retried, fresh, released]


def test_a_lapsed_job_of_a_high_priority_comes_before_fresh_ones(
    queue: Queue, table: JobTable
) -> None:
    high = queue.enqueue(1, priority=5)
    assert ids(queue) == [high]
    low = queue.enqueue(2)
    table.lapse(high)
    assert ids(queue, 1) == [high]
    assert ids(queue, 1) == [low]


def test_a_batch_goes_on_through_the_priorities(queue: Queue) -> None:
    low = queue.enqueue_many(range(3), priority=-7)
    high = queue.enqueue_many(range(3), priority=7)
    middle = queue.enqueue_many(range(3))
    assert ids(queue, 5) == [*high, *middle[:2]]
    assert ids(queue, 5) == [middle[2], *low]


def test_jobs_delayed_at_the_highest_priority_hide_nothing(queue: Queue) -> None:
    queue.enqueue_many(range(2_000), priority=9, delay=3600)
    low = queue.enqueue(1, priority=-9)
    assert ids(queue) == [low]
    assert ids(queue) == []


def test_what_is_not_due_is_not_claimed(queue: Queue, table: JobTable) -> None:
    job = queue.enqueue(1, delay=0.5)
    table.move(job, "run_at", 60)
    assert ids(queue) == []
    table.move(job, "run_at", 0)
    assert ids(queue) == [job]


def test_a_claim_takes_no_more_than_its_limit(queue: Queue) -> None:
    jobs = queue.enqueue_many(range(10))
    assert ids(queue, 3) == jobs[:3]
    assert ids(queue, 17) == jobs[3:]


@pytest.mark.parametrize("limit", [1, 7, 33, 333, 10_000])
def test_any_limit_claims_in_order(queue: Queue, limit: int) -> None:
    jobs = queue.enqueue_many(range(400))
    assert ids(queue, limit) == jobs[:limit]


def test_a_held_job_is_not_claimed_again(queue: Queue) -> None:
    queue.enqueue(1)
    assert len(ids(queue)) == 1
    assert ids(queue) == []


def test_a_claim_sees_only_its_own_queue(store: PostgresStore) -> None:
    one, other = store.queue("one"), store.queue("ONE")
    job = one.enqueue(1)
    assert ids(other) == []
    assert ids(one) == [job]


def test_a_claim_tells_what_it_got(store: PostgresStore, table: JobTable) -> None:
    queue = store.queue("mail", max_attempts=4, visibility_timeout=20, base_backoff=3)
    job_id = queue.enqueue(["a", 1])
    boundary = datetime(2024, 5, 6, tzinfo=timezone.utc)
    table.set(job_id, "schedule", "nightly")
    table.set(job_id, "scheduled_for", boundary)
    with table.spanning() as span:
        (handle,) = queue.claim("worker-1")
    assert (handle.id, handle.queue) == (job_id, "mail")
    assert handle.payload == ["a", 1]
    assert handle.raw == b'["a",1]'
    assert (handle.attempt, handle.max_attempts, handle.visibility_timeout) == (1, 4, 20)
    assert (handle.schedule, handle.scheduled_for) == ("nightly", boundary)
    row = table.row(job_id)
    assert handle.enqueued_at == row["enqueued_at"]
    assert not handle.lost
    assert not handle.settled
    assert row["worker_id"] == "worker-1"
    assert row["attempts"] == 1
    assert row["claim_expires_at"] in span + 20


def test_a_job_holds_nothing_back_that_is_ready_beside_it(queue: Queue, table: JobTable) -> None:
    """A row that someone has locked is passed over, not waited for."""
    locked, free = queue.enqueue(1), queue.enqueue(2)
    with table.locked(locked):
        assert ids(queue) == [free]
    assert ids(queue) == [locked]
