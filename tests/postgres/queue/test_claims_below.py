"""Short claims below a priority whose jobs are all delayed: what they claim, when they are sent.

A retry of one urgent job is enough for such a priority, so queues that have urgent jobs have it
most of the time.
"""

from __future__ import annotations

import random
from collections.abc import Callable

import psycopg
import pytest

from alkstore.traits import Queue
from alkstore_postgres import PostgresStore
from alkstore_postgres.database.session import Session
from alkstore_postgres.queue.claimer import _ID, _Claim
from tests.support.job_table import JobTable

FULL, TOP, BELOW = "claim", "claim_first", "claim_some_below"

DELAYED = 9
"""The priority that has delayed jobs and no others."""

Claims = Callable[..., tuple[list[int], list[str]]]


@pytest.fixture
def claims(queue: Queue, claim_statements: list[str]) -> Claims:
    """Return a function that claims; it returns the ids, and what statements were sent."""

    def claim(limit: int = 1) -> tuple[list[int], list[str]]:
        claim_statements.clear()
        handles = queue.claim("w", limit)
        return [handle.id for handle in handles], list(claim_statements)

    return claim


@pytest.fixture
def later(queue: Queue) -> int:
    """A job that is delayed at a high priority."""
    return queue.enqueue("later", priority=DELAYED, delay=600)


def test_below_delayed_jobs_a_streak_is_of_short_statements_too(
    queue: Queue, later: int, claims: Claims
) -> None:
    ready = queue.enqueue_many(range(6))
    assert claims() == ([ready[0]], [FULL])
    assert claims() == ([ready[1]], [TOP, FULL])
    for job in ready[2:]:
        assert claims() == ([job], [BELOW])
    assert claims() == ([], [BELOW, FULL])
    assert queue.cancel(later)


def test_so_is_one_of_batches(queue: Queue, later: int, claims: Claims) -> None:
    ready = queue.enqueue_many(range(22))
    assert claims(5) == (ready[:5], [FULL])
    assert claims(5) == (ready[5:10], ["claim_more", FULL])
    assert claims(5) == (ready[10:15], ["claim_more_below"])
    assert claims(5) == (ready[15:20], ["claim_more_below"])
    assert claims(5) == (ready[20:], ["claim_more_below", FULL])
    assert queue.cancel(later)


def test_the_end_of_a_streak_says_nothing_of_what_is_delayed(queue: Queue, claims: Claims) -> None:
    for _ in range(3):
        ready = queue.enqueue_many(range(12))
        assert [claims(5) for _ in range(3)] == [
            (ready[:5], [FULL]),
            (ready[5:10], ["claim_more"]),
            (ready[10:], ["claim_more", FULL]),
        ]


def test_what_comes_between_the_delayed_and_the_ready_jobs_comes_first(
    queue: Queue, later: int, claims: Claims, table: JobTable
) -> None:
    even_later = queue.enqueue("even later", priority=DELAYED - 1, delay=6000)
    ready = queue.enqueue_many(range(10))
    for _ in range(3):
        claims()
    assert claims() == ([ready[3]], [BELOW])
    between, above = (queue.enqueue("now", priority=one) for one in (DELAYED - 2, DELAYED + 1))
    assert claims() == ([above], [BELOW])
    assert claims() == ([between], [BELOW])
    table.move(even_later, "run_at", -1)
    assert claims() == ([even_later], [BELOW])
    table.move(later, "run_at", -1)
    assert claims() == ([later], [BELOW])
    assert claims() == ([ready[4]], [BELOW])


def test_a_claim_that_lapsed_comes_in_its_turn(
    queue: Queue, later: int, claims: Claims, table: JobTable
) -> None:
    urgent = queue.enqueue("urgent", priority=DELAYED - 1)
    ready = queue.enqueue_many(range(10))
    assert [claims()[0] for _ in range(4)] == [[urgent], *([job] for job in ready[:3])]
    assert claims() == ([ready[3]], [BELOW])
    table.lapse(urgent)
    assert claims() == ([urgent], [BELOW, FULL, FULL])
    assert claims() == ([ready[4]], [FULL])
    assert queue.cancel(later)


def test_an_expired_job_is_not_claimed(
    queue: Queue, later: int, claims: Claims, table: JobTable
) -> None:
    doomed, *ready = queue.enqueue_many(range(5), expires=60)
    table.move(doomed, "run_at", 60)
    for _ in range(2):
        claims()
    table.move(doomed, "run_at", -60)
    table.move(doomed, "expires_at", -1)
    assert claims() == ([ready[2]], [BELOW, FULL, FULL])
    assert [dead.id for dead in queue.dead()] == [doomed]
    assert queue.cancel(later)


def test_jobs_that_somebody_else_has_locked_hide_no_others(
    queue: Queue, later: int, claims: Claims, table: JobTable
) -> None:
    ready = queue.enqueue_many(range(9))
    for _ in range(3):
        claims()
    between = queue.enqueue("now", priority=DELAYED - 2)
    with table.locked(between):
        assert claims() == ([ready[3]], [BELOW, FULL])
    assert claims() == ([between], [FULL])
    assert queue.cancel(later)


def test_now_and_then_the_highest_priority_is_tried_again(
    queue: Queue, later: int, claims: Claims, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("alkstore_postgres.queue.claim_streaks._BELOW", 3)
    queue.enqueue_many(range(20))
    claims()
    claims()
    assert queue.cancel(later)
    sent = [claims()[1] for _ in range(6)]
    assert sent == [[BELOW]] * 3 + [[TOP]] * 3


def test_it_claims_what_the_full_statement_would_have_claimed(
    store: PostgresStore, connection: psycopg.Connection[tuple[object, ...]]
) -> None:
    """Over random queues, with jobs that are delayed, held and tried again."""
    rng = random.Random(5)
    statements = store._parts.queues.claimer._sql
    claimed = firsts = 0
    for number in range(40):
        queue = store.queue(f"mail {number}")
        for _ in range(rng.randrange(14)):
            priority, delay = rng.choice((-3, 0, 4, DELAYED)), rng.choice((0, 0, 600, 1200))
            queue.enqueue(0, priority=priority, delay=delay)
        for handle in queue.claim("other", rng.randrange(1, 5)):
            assert rng.random() < 0.5 or handle.retry("busy", delay=rng.choice((0, 900)))
        for limit in (1, 2, 4):
            for name in ("claim_some_below", "claim_more_below", *(["claim_first"] * (limit == 1))):
                short, full = (
                    _tried(connection, statements.variant(one, limit), queue.name, limit)
                    for one in (name, FULL)
                )
                claimed += len(short)
                assert short in ([], full), (number, name, limit)
                assert limit > 1 or name == "claim_first" or short == full
                firsts += len(short) * (name == "claim_first")
    assert claimed - firsts > 100
    assert firsts > 10


def _tried(
    connection: psycopg.Connection[tuple[object, ...]], statement: bytes, queue: str, limit: int
) -> list[int]:
    """Return which jobs *statement* claims, in the order of their ids, and undo that."""
    with connection.transaction(force_rollback=True):
        rows = Session(connection).fetch_all(statement, _Claim(queue, "w", limit).params())
    return sorted(row[_ID] for row in rows if row[_ID] is not None)
