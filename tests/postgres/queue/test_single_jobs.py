"""Section 5 of the contract: one job is read whole, and cancelled."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

import pytest

from alkstore import DecodeError
from alkstore.traits import Queue
from alkstore_postgres import PostgresStore
from tests.support.job_table import JobTable

FIRST = datetime.min.replace(tzinfo=timezone.utc)
LAST = datetime.max.replace(tzinfo=timezone.utc)


def test_a_pending_job_is_read_whole(store: PostgresStore, queue: Queue, table: JobTable) -> None:
    job_id = queue.enqueue({"a": [1, None]}, delay=30, priority=-4, expires=90, max_attempts=6)
    job = store.get_job(job_id)
    assert job is not None
    assert (job.id, job.queue, job.state) == (job_id, "mail", "pending")
    assert job.payload == {"a": [1, None]}
    assert job.raw == b'{"a":[1,null]}'
    assert (job.priority, job.attempts, job.max_attempts) == (-4, 0, 6)
    assert job.run_at - job.enqueued_at == timedelta(seconds=30)
    assert job.expires_at is not None
    assert job.expires_at - job.enqueued_at == timedelta(seconds=90)
    assert job.visibility_timeout == timedelta(seconds=300)
    assert job.base_backoff == timedelta(seconds=60)
    assert (job.worker_id, job.claim_expires_at) == (None, None)
    assert (job.schedule, job.scheduled_for) == (None, None)
    assert job.enqueued_at.utcoffset() == timedelta(0)


def test_a_processing_job_shows_who_holds_it_and_for_how_long(
    store: PostgresStore, queue: Queue, table: JobTable
) -> None:
    job_id = queue.enqueue(1)
    boundary = datetime(2024, 5, 6, tzinfo=timezone.utc)
    table.set(job_id, "schedule", "nightly")
    table.set(job_id, "scheduled_for", boundary)
    queue.claim("worker-1")
    job = store.get_job(job_id)
    assert job is not None
    assert (job.state, job.worker_id, job.attempts) == ("processing", "worker-1", 1)
    assert job.claim_expires_at == table.row(job_id)["claim_expires_at"]
    assert (job.schedule, job.scheduled_for) == ("nightly", boundary)


def test_a_job_given_back_shows_no_holder(store: PostgresStore, queue: Queue) -> None:
    for give_back in ("release", "retry"):
        job_id = queue.enqueue(1)
        (handle,) = queue.claim("w")
        assert handle.release() if give_back == "release" else handle.retry("x")
        job = store.get_job(job_id)
        assert job is not None
        assert (job.state, job.worker_id, job.claim_expires_at) == ("pending", None, None)
        assert queue.cancel(job_id)


def test_acked_dead_and_unknown_jobs_are_none(store: PostgresStore, queue: Queue) -> None:
    acked, dead = queue.enqueue_many(range(2))
    one, other = queue.claim("w", 2)
    one.ack()
    other.fail("x")
    assert store.get_job(acked) is None
    assert store.get_job(dead) is None
    assert store.get_job(2**63 - 1) is None


def test_a_damaged_payload_breaks_no_reader_until_it_is_read(
    store: PostgresStore, queue: Queue, table: JobTable
) -> None:
    job_id = queue.enqueue(1)
    table.set(job_id, "payload", b"\xff{")
    job = store.get_job(job_id)
    assert job is not None
    assert job.raw == b"\xff{"
    with pytest.raises(DecodeError):
        _ = job.payload
    (handle,) = queue.claim("w")
    assert handle.raw == b"\xff{"
    with pytest.raises(DecodeError):
        _ = handle.payload
    assert handle.fail("it does not decode")
    (letter,) = queue.dead()
    assert letter.raw == b"\xff{"
    with pytest.raises(DecodeError):
        _ = letter.payload


@pytest.mark.parametrize("value", ["infinity", "-infinity", "294276-12-31 00:00:00+00"])
def test_times_that_python_cannot_tell_break_no_reader(
    store: PostgresStore, queue: Queue, table: JobTable, value: str
) -> None:
    job_id = queue.enqueue(1)
    table.set(job_id, "run_at", value)
    job = store.get_job(job_id)
    assert job is not None
    assert job.run_at == (FIRST if value == "-infinity" else LAST)
    assert queue.stats().delayed == (0 if value == "-infinity" else 1)
    assert len(queue.claim_wait("w", timeout=0)) == (1 if value == "-infinity" else 0)


# cancel


def test_a_cancelled_pending_job_never_runs(queue: Queue, table: JobTable) -> None:
    job_id = queue.enqueue(1)
    assert queue.cancel(job_id)
    assert queue.claim("w") == []
    assert table.contents() == ([], [])
    assert not queue.cancel(job_id)


def test_a_delayed_and_a_lapsed_job_can_be_cancelled(queue: Queue, table: JobTable) -> None:
    lapsed = queue.enqueue(1)
    delayed = queue.enqueue(2, delay=60)
    queue.claim("w")
    table.lapse(lapsed)
    assert queue.cancel(delayed)
    assert queue.cancel(lapsed)
    assert table.contents() == ([], [])


def test_whoever_holds_a_cancelled_job_learns_of_it(queue: Queue) -> None:
    job_id = queue.enqueue(1)
    (handle,) = queue.claim("w")
    assert queue.cancel(job_id)
    assert not handle.heartbeat()
    assert handle.lost


def test_a_cancel_reaches_only_the_jobs_of_its_own_queue(
    store: PostgresStore, queue: Queue, table: JobTable
) -> None:
    job_id = queue.enqueue(1)
    assert not store.queue("other").cancel(job_id)
    assert table.row(job_id)


def test_a_dead_letter_cannot_be_cancelled(queue: Queue) -> None:
    job_id = queue.enqueue(1)
    queue.claim("w")[0].fail("x")
    assert not queue.cancel(job_id)
    assert len(queue.dead()) == 1
