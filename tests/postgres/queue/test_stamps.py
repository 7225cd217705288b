"""Section 4 of the contract: the stamps on the row count, whoever claims."""

from __future__ import annotations

import pytest

from alkstore.traits import Queue
from alkstore_postgres import PostgresStore
from tests.support.job_table import JobTable


@pytest.fixture
def other(store: PostgresStore) -> Queue:
    """Return a handle of the same queue with other options, as of a newer deploy."""
    return store.queue("mail", visibility_timeout=7, max_attempts=1, base_backoff=0.5)


def test_the_row_says_how_long_a_claim_holds(queue: Queue, other: Queue, table: JobTable) -> None:
    """Field case B50: a change of the visibility timeout steals no live job."""
    job = queue.enqueue(1)
    with table.spanning() as span:
        (handle,) = other.claim("w")
    assert handle.visibility_timeout == 300
    assert table.row(job)["claim_expires_at"] in span + 300


def test_the_row_says_how_long_a_heartbeat_holds(
    queue: Queue, other: Queue, table: JobTable
) -> None:
    job = queue.enqueue(1)
    (handle,) = other.claim("w")
    table.move(job, "claim_expires_at", 1)
    with table.spanning() as span:
        assert handle.heartbeat()
    assert table.row(job)["claim_expires_at"] in span + 300
    table.move(job, "claim_expires_at", 1)
    with table.spanning() as span:
        assert other.heartbeat_many([handle]) == 1
    assert table.row(job)["claim_expires_at"] in span + 300


def test_the_row_says_how_many_attempts_there_are(
    queue: Queue, other: Queue, table: JobTable
) -> None:
    job = queue.enqueue(1)
    for attempt in (1, 2, 3):
        (handle,) = other.claim("w")
        assert (handle.attempt, handle.max_attempts) == (attempt, 3)
        assert handle.retry(f"failure {attempt}", delay=0)
    (letter,) = queue.dead()
    assert (letter.id, letter.error, letter.attempts) == (job, "failure 3", 3)


def test_the_row_says_when_the_budget_of_a_lapsed_job_is_used_up(
    queue: Queue, other: Queue, table: JobTable
) -> None:
    job = other.enqueue(1)
    queue.claim("w")
    table.lapse(job)
    assert queue.claim("w") == []
    assert queue.dead()[0].error == "max attempts exceeded"


def test_the_row_says_where_the_retry_curve_begins(
    queue: Queue, other: Queue, table: JobTable
) -> None:
    job = queue.enqueue(1)
    (handle,) = other.claim("w")
    with table.spanning() as span:
        assert handle.retry("x")
    assert table.row(job)["run_at"] in span + 60


def test_a_requeued_job_keeps_its_stamps(queue: Queue, other: Queue, table: JobTable) -> None:
    job = queue.enqueue(1, max_attempts=5)
    other.claim("w")[0].fail("x")
    assert other.requeue([job]) == 1
    row = table.row(job)
    assert (row["visibility_timeout"], row["max_attempts"], row["base_backoff"]) == (300, 5, 60)
