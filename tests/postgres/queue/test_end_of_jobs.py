"""Section 5 of the contract: exhausted and expired jobs become dead letters."""

from __future__ import annotations

import math
from typing import Any

import psycopg
import pytest

from alkstore import DatabaseError
from alkstore.traits import Queue
from alkstore_postgres import PostgresStore
from alkstore_postgres.queue import claimer
from tests.support.cursors import Run, around_statements
from tests.support.job_table import JobTable


def test_a_lapsed_job_without_attempts_left_dies(queue: Queue, table: JobTable) -> None:
    job = queue.enqueue({"n": 1}, max_attempts=1)
    queue.claim("w")
    table.lapse(job)
    assert queue.claim("w") == []
    (letter,) = queue.dead()
    assert (letter.id, letter.error) == (job, "max attempts exceeded")
    assert (letter.attempts, letter.max_attempts, letter.payload) == (1, 1, {"n": 1})
    assert table.find(job) is None


def test_it_dies_in_the_transaction_of_the_claim(
    queue: Queue, table: JobTable, conninfo: str, schema: str
) -> None:
    """Whoever sees that the claim took something sees that the other job died."""
    doomed = queue.enqueue(1, max_attempts=1)
    queue.claim("w")
    table.lapse(doomed)
    fresh = queue.enqueue(2)
    assert [handle.id for handle in queue.claim("w")] == [fresh]
    name = psycopg.sql.Identifier(schema)
    query = psycopg.sql.SQL(
        "SELECT dead.xmin::text = job.xmin::text FROM {0}.dead_jobs AS dead, {0}.jobs AS job"
        " WHERE dead.id = %s AND job.id = %s"
    ).format(name)
    with psycopg.connect(conninfo) as connection:
        assert connection.execute(query, [doomed, fresh]).fetchone() == (True,)


def test_a_lapsed_job_with_attempts_left_lives(queue: Queue, table: JobTable) -> None:
    job = queue.enqueue(1, max_attempts=2)
    queue.claim("w")
    table.lapse(job)
    assert queue.claim("w")[0].attempt == 2
    assert queue.dead() == []


def test_a_lapsed_job_of_another_queue_is_left_alone(
    store: PostgresStore, queue: Queue, table: JobTable
) -> None:
    job = queue.enqueue(1, max_attempts=1)
    queue.claim("w")
    table.lapse(job)
    assert store.queue("other").claim("w") == []
    assert table.row(job)["attempts"] == 1


def test_many_exhausted_jobs_die_at_once_and_hide_no_good_one(
    queue: Queue, table: JobTable
) -> None:
    doomed = queue.enqueue_many(range(500), max_attempts=1)
    queue.claim("w", 500)
    table.lapse_all()
    good = queue.enqueue(1)
    assert [handle.id for handle in queue.claim("w", 10)] == [good]
    assert sorted(letter.id for letter in queue.dead(1000)) == doomed


# Expiry.


@pytest.mark.parametrize("delay", [0, 3600])
def test_an_expired_job_is_never_claimed_and_dies_as_expired(
    queue: Queue, table: JobTable, delay: float
) -> None:
    job = queue.enqueue(1, expires=7200, delay=delay)
    table.move(job, "expires_at", -0.001)
    assert queue.claim("w") == []
    (letter,) = queue.dead()
    assert (letter.id, letter.error, letter.attempts) == (job, "expired", 0)
    assert table.find(job) is None


def test_a_job_that_expires_later_is_claimed(queue: Queue) -> None:
    job = queue.enqueue(1, expires=60)
    assert queue.claim("w")[0].id == job


def test_an_expiry_does_not_touch_a_job_that_is_held(queue: Queue, table: JobTable) -> None:
    job = queue.enqueue(1, expires=60)
    (handle,) = queue.claim("w")
    table.move(job, "expires_at", -5)
    assert queue.claim("other") == []
    assert queue.dead() == []
    assert handle.heartbeat()
    assert handle.ack()


def test_a_retried_or_released_job_expires_too(queue: Queue, table: JobTable) -> None:
    jobs = queue.enqueue_many(range(2), expires=60)
    one, other = queue.claim("w", 2)
    assert one.retry("x", delay=0)
    assert other.release()
    for job in jobs:
        table.move(job, "expires_at", -5)
    assert queue.claim("w", 2) == []
    assert {letter.error for letter in queue.dead()} == {"expired"}


def test_a_lapsed_job_that_expired_meanwhile_dies_as_expired(queue: Queue, table: JobTable) -> None:
    job = queue.enqueue(1, expires=60, max_attempts=5)
    queue.claim("w")
    table.move(job, "expires_at", -5)
    table.lapse(job)
    assert queue.claim("w") == []
    (letter,) = queue.dead()
    assert (letter.error, letter.attempts) == ("expired", 1)


def test_a_lapsed_exhausted_job_that_expired_too_dies_of_its_attempts(
    queue: Queue, table: JobTable
) -> None:
    job = queue.enqueue(1, expires=60, max_attempts=1)
    queue.claim("w")
    table.move(job, "expires_at", -5)
    table.lapse(job)
    assert queue.claim("w") == []
    assert queue.dead()[0].error == "max attempts exceeded"


def test_expired_jobs_hide_no_good_one(queue: Queue, table: JobTable) -> None:
    doomed = queue.enqueue_many(range(300), expires=60, priority=9)
    table.expire_all()
    good = queue.enqueue(1)
    assert [handle.id for handle in queue.claim("w", 10)] == [good]
    assert sorted(letter.id for letter in queue.dead(1000)) == doomed


def test_more_than_a_sweep_takes_at_once_still_die_in_one_claim(
    queue: Queue, table: JobTable
) -> None:
    queue.enqueue_many(range(25_000), expires=60)
    table.expire_all()
    good = queue.enqueue(1)
    assert [handle.id for handle in queue.claim("w", 10)] == [good]
    assert queue.size() == 1
    assert len(table.contents()[1]) == 25_000


def test_what_was_swept_stays_swept_when_a_later_batch_fails(
    queue: Queue, table: JobTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Field case B113: maintenance that is cut short makes progress all the same."""
    queue.enqueue_many(range(250), expires=60)
    table.expire_all()
    monkeypatch.setattr(claimer, "_SWEEP_BATCH", 100)
    sweeps = 0

    def cut_short(run: Run) -> Run:
        def run_two_sweeps(cursor: object, query: bytes, *args: Any, **options: Any) -> None:
            nonlocal sweeps
            sweeps += b"buried" in query
            if sweeps == 3:
                raise psycopg.errors.QueryCanceled
            run(cursor, query, *args, **options)

        return run_two_sweeps

    with monkeypatch.context() as patch:
        around_statements(patch, cut_short)
        with pytest.raises(DatabaseError):
            queue.claim("w")
    assert (queue.stats().dead, queue.size()) == (200, 50)
    assert queue.claim("w") == []
    assert (queue.stats().dead, queue.size()) == (250, 0)


def test_a_row_that_somebody_has_locked_is_swept_another_time(
    queue: Queue, table: JobTable
) -> None:
    locked, free = queue.enqueue_many(range(2), max_attempts=1)
    queue.claim("w", 2)
    table.lapse(locked, free)
    with table.locked(locked):
        assert queue.claim("w") == []
        assert [letter.id for letter in queue.dead()] == [free]
    assert queue.claim("w") == []
    assert {letter.id for letter in queue.dead()} == {locked, free}


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, 0.0, 1e300])
def test_a_visibility_timeout_that_nobody_could_claim_with_is_refused_by_the_table(
    queue: Queue, table: JobTable, value: float
) -> None:
    """One row that was changed by hand must not stop the claims of its whole queue."""
    job_id = queue.enqueue("x")
    with pytest.raises(psycopg.errors.CheckViolation):
        table.set(job_id, "visibility_timeout", value)
    assert [handle.id for handle in queue.claim("w")] == [job_id]


@pytest.mark.parametrize(
    ("column", "value"), [("attempts", 2_147_483_647), ("base_backoff", math.nan)]
)
def test_other_numbers_that_nobody_could_settle_with_are_refused_by_the_table(
    queue: Queue, table: JobTable, column: str, value: float
) -> None:
    job_id = queue.enqueue("x")
    with pytest.raises(psycopg.errors.CheckViolation):
        table.set(job_id, column, value)
    (handle,) = queue.claim("w")
    assert handle.retry("again")
