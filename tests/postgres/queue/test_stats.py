"""Section 5 of the contract: how many jobs there are, and how they stand."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import psycopg
import pytest
from psycopg import sql

from alkstore.traits import Queue
from alkstore.values import QueueStats
from alkstore_postgres import PostgresStore
from alkstore_postgres.queue import inspector
from tests.support.job_table import JobTable

NOTHING = QueueStats(
    ready=0, delayed=0, retrying=0, running=0, dead=0, oldest_ready_age=None, estimated=False
)


def counts(queue: Queue) -> dict[str, int]:
    """Return the counts that are not zero."""
    stats = queue.stats()
    assert not stats.estimated
    names = ("ready", "delayed", "retrying", "running", "dead")
    return {name: getattr(stats, name) for name in names if getattr(stats, name)}


def test_an_empty_queue_has_nothing(queue: Queue) -> None:
    assert queue.stats() == NOTHING
    assert queue.size() == 0


def test_a_job_is_counted_in_every_state_of_its_life(queue: Queue, table: JobTable) -> None:
    job = queue.enqueue(1, delay=60)
    assert (counts(queue), queue.size()) == ({"delayed": 1}, 1)
    table.move(job, "run_at", -1)
    assert (counts(queue), queue.size()) == ({"ready": 1}, 1)
    (handle,) = queue.claim("w")
    assert (counts(queue), queue.size()) == ({"running": 1}, 1)
    assert handle.retry("x")
    assert (counts(queue), queue.size()) == ({"retrying": 1}, 1)
    table.move(job, "run_at", -1)
    assert (counts(queue), queue.size()) == ({"ready": 1}, 1)
    (handle,) = queue.claim("w")
    assert handle.release()
    assert (counts(queue), queue.size()) == ({"ready": 1}, 1)
    (handle,) = queue.claim("w")
    assert handle.fail("x")
    assert (counts(queue), queue.size()) == ({"dead": 1}, 0)
    assert queue.requeue([job]) == 1
    assert (counts(queue), queue.size()) == ({"ready": 1}, 1)
    assert queue.claim("w")[0].ack()
    assert (counts(queue), queue.size()) == ({}, 0)


def test_a_delayed_job_that_was_released_waits_as_one_never_tried(
    queue: Queue, table: JobTable
) -> None:
    job = queue.enqueue(1)
    assert queue.claim("w")[0].release()
    table.move(job, "run_at", 60)
    assert counts(queue) == {"delayed": 1}


def test_a_lapsed_job_is_ready_before_and_after_a_sweep(queue: Queue, table: JobTable) -> None:
    job = queue.enqueue(1)
    queue.claim("w")
    table.lapse(job)
    assert counts(queue) == {"ready": 1}
    table.move(job, "run_at", -60)
    queue.enqueue(2, priority=1)
    queue.claim("w")
    assert table.row(job)["claimable"]
    assert counts(queue) == {"ready": 1, "running": 1}
    age = queue.stats().oldest_ready_age
    assert age is not None
    assert 60 <= age.total_seconds() < 70


def test_what_no_claim_would_get_is_not_ready(queue: Queue, table: JobTable) -> None:
    """An exhausted or expired job is a dead letter that no claim has swept yet."""
    exhausted = queue.enqueue(1, max_attempts=1)
    outlived = queue.enqueue(2, expires=60)
    queue.claim("w", 2)
    table.lapse(exhausted, outlived)
    table.move(outlived, "expires_at", -1)
    due = queue.enqueue(3, expires=60)
    not_due = queue.enqueue(4, expires=120, delay=60)
    table.move(due, "expires_at", -1)
    table.move(not_due, "expires_at", -1)
    assert queue.stats() == NOTHING
    assert queue.size() == 4
    good = queue.enqueue(5)
    assert counts(queue) == {"ready": 1}
    assert [handle.id for handle in queue.claim("w", 9)] == [good]
    assert (counts(queue), queue.size()) == ({"running": 1, "dead": 4}, 1)


def test_the_oldest_ready_job_is_found_in_any_priority(queue: Queue, table: JobTable) -> None:
    ages = {5: -10, 0: -500, -5: -20}
    for priority, due in ages.items():
        table.move(queue.enqueue(1, priority=priority), "run_at", due)
    queue.enqueue(1, delay=60)
    held = queue.enqueue(1, priority=9)
    table.move(held, "run_at", -9_000)
    expired = queue.enqueue(1, expires=60)
    table.move(expired, "run_at", -9_000)
    assert queue.claim("w")[0].id == held
    table.move(expired, "expires_at", -1)
    age = queue.stats().oldest_ready_age
    assert age is not None
    assert timedelta(seconds=500) <= age < timedelta(seconds=510)


def test_a_queue_counts_only_its_own_jobs(store: PostgresStore, queue: Queue) -> None:
    queue.enqueue_many(range(3))
    queue.claim("w")[0].fail("x")
    other = store.queue("other")
    assert other.stats() == NOTHING
    assert other.size() == 0


@pytest.mark.parametrize("value", ["infinity", "-infinity"])
def test_a_damaged_time_breaks_no_count(queue: Queue, table: JobTable, value: str) -> None:
    table.set(queue.enqueue(1), "run_at", value)
    assert counts(queue) == ({"delayed": 1} if value == "infinity" else {"ready": 1})


# More than can be counted in a moment.


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> int:
    """Let no more than a thousand jobs of each kind be counted."""
    monkeypatch.setattr(inspector, "MOST_COUNTED", 1_000)
    return 1_000


def analyze(connection: psycopg.Connection[Any], schema: str) -> None:
    for name in ("jobs", "dead_jobs"):
        connection.execute(sql.SQL("ANALYZE {}").format(sql.Identifier(schema, name)))


def test_counts_below_the_limit_are_exact(queue: Queue, few: int) -> None:
    queue.enqueue_many(range(few - 1))
    queue.enqueue_many(range(few - 1), delay=60, priority=3)
    assert counts(queue) == {"ready": few - 1, "delayed": few - 1}


def test_counts_beyond_the_limit_are_estimates_of_the_right_size(
    queue: Queue,
    table: JobTable,
    few: int,
    connection: psycopg.Connection[Any],
    schema: str,
) -> None:
    """Field case B113."""
    queue.enqueue_many(range(9_000), max_attempts=1)
    for handle in queue.claim("w", 3_000):
        assert handle.fail("x")
    queue.claim("w", 2_000)
    queue.enqueue_many(range(6_000), delay=60)
    analyze(connection, schema)
    stats = queue.stats()
    assert stats.estimated
    for name, truth in (("ready", 4_000), ("delayed", 6_000), ("running", 2_000), ("dead", 3_000)):
        assert abs(getattr(stats, name) - truth) < truth / 2, name
    table.lapse_all()
    analyze(connection, schema)
    assert queue.stats().running == 0


def test_an_estimate_is_never_less_than_what_was_seen(queue: Queue, few: int) -> None:
    """A table that was never analysed has poor estimates."""
    queue.enqueue_many(range(few))
    stats = queue.stats()
    assert stats.estimated
    assert stats.ready >= few
    assert (stats.delayed, stats.retrying, stats.running, stats.dead) == (0, 0, 0, 0)


def test_a_number_that_is_small_stays_exact_beside_one_that_is_not(queue: Queue, few: int) -> None:
    queue.enqueue_many(range(few + 500))
    queue.claim("w", 3)
    queue.enqueue_many(range(7), delay=60, priority=9)
    stats = queue.stats()
    assert stats.estimated
    assert (stats.running, stats.delayed, stats.retrying, stats.dead) == (3, 7, 0, 0)
