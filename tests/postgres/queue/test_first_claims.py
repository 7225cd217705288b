"""Claims of one job in a streak: the first job that nobody else is about to take."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from alkstore.traits import Queue
from alkstore_postgres import PostgresStore
from alkstore_postgres.queue.claimer import _Claim
from tests.support.job_table import JobTable

FULL, FIRST = "claim", "claim_first"

Claims = Callable[[], tuple[list[int], list[str]]]


@pytest.fixture
def claims(queue: Queue, claim_statements: list[str]) -> Claims:
    """Return a function that claims one job; it returns the ids, and what statements were sent."""

    def claim() -> tuple[list[int], list[str]]:
        claim_statements.clear()
        return [handle.id for handle in queue.claim("w")], list(claim_statements)

    return claim


def test_a_streak_is_in_the_claim_order(queue: Queue, claims: Claims, table: JobTable) -> None:
    last, second, third, first = (queue.enqueue(0, priority=one) for one in (0, 5, 5, 9))
    table.move(third, "run_at", -60)
    rest = queue.enqueue_many(range(2))
    assert claims() == ([first], [FULL])
    assert claims() == ([third], [FIRST])
    assert claims() == ([second], [FIRST])
    assert claims() == ([last], [FIRST])
    urgent = queue.enqueue("urgent", priority=1)
    assert claims() == ([urgent], [FIRST])
    assert [claims() for _ in rest] == [([one], [FIRST]) for one in rest]
    assert claims() == ([], [FIRST, FULL])


def test_what_somebody_else_has_locked_is_passed_over(
    queue: Queue, claims: Claims, table: JobTable
) -> None:
    urgent = [queue.enqueue("urgent", priority=3) for _ in range(4)]
    ready = queue.enqueue_many(range(3))
    assert claims() == ([urgent[0]], [FULL])
    with table.locked(urgent[1]):
        assert claims() == ([urgent[2]], [FIRST])
        with table.locked(urgent[3]):
            assert claims() == ([ready[0]], [FIRST])
    assert claims() == ([urgent[1]], [FIRST])


def test_a_first_job_that_is_not_due_is_left_as_it_is(
    queue: Queue, claims: Claims, table: JobTable
) -> None:
    queue.enqueue_many(range(2))
    claims()
    later = queue.enqueue("later", priority=9, delay=600)
    assert claims()[1] == [FIRST, FULL]
    (job,) = [job for job in queue.peek() if job.id == later]
    assert (job.attempts, job.payload) == (0, "later")
    assert queue.cancel(later)


@pytest.mark.parametrize(("name", "limit"), [("claim_first", 1), ("claim_more", 3)])
def test_a_claim_of_nothing_does_not_wait_for_the_disk(
    store: PostgresStore, queue: Queue, table: JobTable, name: str, limit: int
) -> None:
    """It has locked what it does not claim, and the server writes that down."""
    for job in queue.enqueue_many(range(2)):
        table.move(job, "run_at", 600 if limit == 1 else -1)
    query = store._parts.queues.claimer._sql.variant(name, limit)
    with store._parts.database.transaction() as session:
        assert session.fetch_all(query, _Claim(queue.name, "w", limit).params()) == []
        assert session.fetch_value(b"SHOW synchronous_commit") == "off"
    assert [job.attempts for job in queue.peek()] == [0] * queue.size()


def test_a_claim_that_lapsed_comes_in_its_turn(
    queue: Queue, claims: Claims, table: JobTable
) -> None:
    held, following, _ = queue.enqueue_many(range(3))
    assert claims() == ([held], [FULL])
    table.lapse(held)
    assert claims() == ([held], [FIRST, FULL, FULL])
    assert claims() == ([following], [FULL])


def test_an_expired_job_is_not_claimed(queue: Queue, claims: Claims, table: JobTable) -> None:
    held, doomed, following = queue.enqueue_many(range(3), expires=60)
    assert claims() == ([held], [FULL])
    table.move(doomed, "expires_at", -1)
    assert claims() == ([following], [FIRST, FULL, FULL])
    assert [letter.id for letter in queue.dead()] == [doomed]
