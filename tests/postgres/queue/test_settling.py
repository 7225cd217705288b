"""Section 5 of the contract: what becomes of a claimed job."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import psycopg
import pytest

from alkstore import InvalidOption
from alkstore.traits import JobHandle, Queue
from alkstore_postgres import PostgresStore
from tests.support.cursors import Run, around_statements
from tests.support.job_table import JobTable
from tests.support.workers import release_many

NEVER = timedelta(days=36_500)


@pytest.fixture
def held(queue: Queue) -> JobHandle:
    """Return the handle of a job that was claimed for the first time."""
    queue.enqueue({"n": 1})
    return queue.claim("w")[0]


# ack


def test_an_acked_job_is_gone_for_good(
    store: PostgresStore, queue: Queue, held: JobHandle, table: JobTable
) -> None:
    assert held.ack()
    assert table.contents() == ([], [])
    assert store.get_job(held.id) is None
    assert held.settled
    assert not held.lost


def test_a_second_ack_is_false_and_says_nothing_of_a_loss(held: JobHandle) -> None:
    assert held.ack()
    assert not held.ack()
    assert not held.heartbeat()
    assert held.settled
    assert not held.lost


# retry


def test_a_retried_job_is_pending_again_and_keeps_its_attempt(
    queue: Queue, held: JobHandle, table: JobTable
) -> None:
    assert held.retry(ValueError("smtp"))
    row = table.row(held.id)
    assert row["claimable"]
    assert row["claim_id"] is row["worker_id"] is row["claim_expires_at"] is None
    assert row["attempts"] == 1
    assert queue.claim("w") == []
    table.move(held.id, "run_at", 0)
    assert queue.claim("w")[0].attempt == 2


def test_the_gaps_of_retries_follow_the_curve(store: PostgresStore, table: JobTable) -> None:
    queue = store.queue("mail", base_backoff=60, max_attempts=12)
    job = queue.enqueue(1)
    gaps = [60, 120, 240, 480, 960, 1920, 3840, 7680, 15_360, 21_600, 21_600]
    for gap in gaps:
        table.move(job, "run_at", 0)
        with table.spanning() as span:
            assert queue.claim("w")[0].retry("x")
        assert table.row(job)["run_at"] in span + gap


def test_a_huge_budget_never_breaks_the_curve(queue: Queue, table: JobTable) -> None:
    """Field case B59: the gap stays finite and capped however often a job failed."""
    job = queue.enqueue(1, max_attempts=2**31 - 1)
    for attempts in (9_999, 2**31 - 3):
        table.set(job, "attempts", attempts)
        table.move(job, "run_at", 0)
        with table.spanning() as span:
            assert queue.claim("w")[0].retry("x")
        assert table.row(job)["run_at"] in span + 21_600


@pytest.mark.parametrize("delay", [45, 45.0, timedelta(seconds=45)])
def test_a_given_delay_takes_the_place_of_the_curve(
    held: JobHandle, table: JobTable, delay: Any
) -> None:
    with table.spanning() as span:
        assert held.retry("x", delay=delay)
    assert table.row(held.id)["run_at"] in span + 45


def test_a_retry_without_a_gap_is_due_at_once(queue: Queue, held: JobHandle) -> None:
    assert held.retry("x", delay=0)
    (again,) = queue.claim("w")
    assert (again.id, again.attempt) == (held.id, 2)


def test_the_longest_delay_is_stored(held: JobHandle, table: JobTable) -> None:
    assert held.retry("x", delay=NEVER)
    assert abs(table.seconds_until(held.id, "run_at") - NEVER.total_seconds()) < 10


@pytest.mark.parametrize("delay", [None, 0, 3600])
def test_with_the_budget_used_up_a_retry_is_a_dead_letter_with_its_error(
    queue: Queue, table: JobTable, delay: Any
) -> None:
    job = queue.enqueue({"n": 1}, max_attempts=1)
    (handle,) = queue.claim("w")
    assert handle.retry(ValueError("smtp is away"), delay=delay)
    assert handle.settled
    assert table.find(job) is None
    (letter,) = queue.dead()
    assert (letter.id, letter.error, letter.attempts) == (job, "smtp is away", 1)


# fail


def test_a_failed_job_is_a_dead_letter_whole(queue: Queue, table: JobTable) -> None:
    queue.enqueue([1, "a"], priority=7, expires=500, max_attempts=9)
    (handle,) = queue.claim("w")
    before = table.row(handle.id)
    assert handle.fail(KeyError("user"))
    assert table.find(handle.id) is None
    dead = table.dead_row(handle.id)
    kept = (
        "id", "queue", "payload", "priority", "attempts", "max_attempts", "visibility_timeout",
        "base_backoff", "schedule", "scheduled_for", "enqueued_at",
    )  # fmt: skip
    assert {name: dead[name] for name in kept} == {name: before[name] for name in kept}
    assert dead["error"] == "'user'"
    (letter,) = queue.dead()
    assert letter.payload == [1, "a"]
    assert letter.raw == b'[1,"a"]'
    assert letter.visibility_timeout == timedelta(seconds=300)
    assert letter.died_at >= letter.enqueued_at


# release


def test_a_released_job_is_as_it_was_before_the_claim(queue: Queue, table: JobTable) -> None:
    job = queue.enqueue(1, priority=2, expires=900)
    before = table.row(job)
    assert queue.claim("w")[0].release()
    assert table.row(job) == before


def test_a_released_job_keeps_its_place(queue: Queue) -> None:
    first, second = queue.enqueue_many(range(2))
    assert queue.claim("w")[0].release()
    assert [handle.id for handle in queue.claim("w", 2)] == [first, second]


def test_releases_burn_no_budget(queue: Queue) -> None:
    queue.enqueue(1, max_attempts=1)
    for _ in range(5):
        (handle,) = queue.claim("w")
        assert handle.attempt == 1
        assert handle.release()
    assert queue.claim("w")[0].ack()


# heartbeat


def test_a_heartbeat_holds_for_another_visibility_timeout(held: JobHandle, table: JobTable) -> None:
    table.move(held.id, "claim_expires_at", 5)
    with table.spanning() as span:
        assert held.heartbeat()
    assert table.row(held.id)["claim_expires_at"] in span + 300


@pytest.mark.parametrize("extend", [20, 20.0, timedelta(seconds=20)])
def test_a_heartbeat_holds_for_as_long_as_asked(
    held: JobHandle, table: JobTable, extend: Any
) -> None:
    with table.spanning() as span:
        assert held.heartbeat(extend)
    assert table.row(held.id)["claim_expires_at"] in span + 20
    assert held.heartbeat(NEVER)
    assert table.seconds_until(held.id, "claim_expires_at") > 36_499 * 86_400


def test_a_heartbeat_changes_nothing_else(held: JobHandle, table: JobTable) -> None:
    before = table.row(held.id)
    assert held.heartbeat()
    after = table.row(held.id)
    assert after.pop("claim_expires_at") > before.pop("claim_expires_at")
    assert after == before


# What is refused changes nothing.


@pytest.mark.parametrize(
    "bad", [-1, float("nan"), float("inf"), 36_500 * 86_400 + 1, "5", True, object(), 10**400]
)
def test_an_impossible_duration_is_refused_and_the_claim_is_still_held(
    held: JobHandle, table: JobTable, bad: Any
) -> None:
    before = table.contents()
    with pytest.raises(InvalidOption):
        held.retry("x", delay=bad)
    with pytest.raises(InvalidOption):
        held.heartbeat(bad)
    assert table.contents() == before
    assert held.ack()


def test_a_heartbeat_of_no_length_is_refused(held: JobHandle) -> None:
    with pytest.raises(InvalidOption):
        held.heartbeat(0)


def test_an_impossible_delay_is_refused_even_when_the_budget_is_used_up(queue: Queue) -> None:
    queue.enqueue(1, max_attempts=1)
    (handle,) = queue.claim("w")
    with pytest.raises(InvalidOption):
        handle.retry("x", delay=-1)
    assert queue.dead() == []


# A full notification queue.


@pytest.mark.parametrize("call", ["retry", "release", "release_many"])
def test_a_job_goes_back_even_when_no_wake_can_be_sent(
    queue: Queue, held: JobHandle, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    """Field case B77: error 54000 comes at the commit, and undoes the statement with it."""

    def full(run: Run) -> Run:
        def unless_waking(cursor: object, query: bytes, params: Any = None, **rest: Any) -> None:
            if params and params.get("wake"):
                raise psycopg.errors.ProgramLimitExceeded
            run(cursor, query, params, **rest)

        return unless_waking

    around_statements(monkeypatch, full)
    calls: dict[str, Callable[[], object]] = {
        "retry": lambda: held.retry("x", delay=0),
        "release": held.release,
        "release_many": lambda: release_many(queue, [held]),
    }
    assert calls[call]()
    assert queue.claim("w")[0].id == held.id
