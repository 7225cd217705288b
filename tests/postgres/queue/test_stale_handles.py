"""Section 5 of the contract: a handle whose claim is no longer this one is powerless."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from alkstore.errors import InvalidOption
from alkstore.traits import JobHandle, Queue
from alkstore_postgres import PostgresStore
from tests.support.job_table import JobTable
from tests.support.workers import release_many

Outdate = Callable[[Queue, JobTable, JobHandle], None]


def taken_by_another(queue: Queue, table: JobTable, stale: JobHandle) -> None:
    table.lapse(stale.id)
    assert queue.claim("somebody else")[0].id == stale.id


def taken_under_the_same_worker_id(queue: Queue, table: JobTable, stale: JobHandle) -> None:
    table.lapse(stale.id)
    assert queue.claim("w")[0].id == stale.id


def released(queue: Queue, table: JobTable, stale: JobHandle) -> None:
    assert stale.release()


def released_and_claimed_again_as_the_same_attempt(
    queue: Queue, table: JobTable, stale: JobHandle
) -> None:
    assert stale.release()
    (again,) = queue.claim("w")
    assert (again.id, again.attempt) == (stale.id, stale.attempt)


def retried(queue: Queue, table: JobTable, stale: JobHandle) -> None:
    assert stale.retry("x", delay=0)


def retried_and_claimed_again(queue: Queue, table: JobTable, stale: JobHandle) -> None:
    assert stale.retry("x", delay=0)
    assert queue.claim("w")[0].id == stale.id


def failed(queue: Queue, table: JobTable, stale: JobHandle) -> None:
    assert stale.fail("x")


def requeued_with_the_attempts_reset(queue: Queue, table: JobTable, stale: JobHandle) -> None:
    assert stale.fail("x")
    assert queue.requeue([stale.id]) == 1


def requeued_and_claimed_again(queue: Queue, table: JobTable, stale: JobHandle) -> None:
    assert stale.fail("x")
    assert queue.requeue([stale.id]) == 1
    (again,) = queue.claim("w")
    assert (again.id, again.attempt) == (stale.id, stale.attempt)


def exhausted(queue: Queue, table: JobTable, stale: JobHandle) -> None:
    table.set(stale.id, "max_attempts", 1)
    table.lapse(stale.id)
    assert queue.claim("w") == []
    assert queue.dead()[0].id == stale.id


def cancelled(queue: Queue, table: JobTable, stale: JobHandle) -> None:
    assert queue.cancel(stale.id)


def acked(queue: Queue, table: JobTable, stale: JobHandle) -> None:
    assert stale.ack()


OUTDATES = [
    taken_by_another,
    taken_under_the_same_worker_id,
    released,
    released_and_claimed_again_as_the_same_attempt,
    retried,
    retried_and_claimed_again,
    failed,
    requeued_with_the_attempts_reset,
    requeued_and_claimed_again,
    exhausted,
    cancelled,
    acked,
]

CALLS: dict[str, Callable[[Queue, JobHandle], Any]] = {
    "ack": lambda _queue, handle: handle.ack(),
    "retry": lambda _queue, handle: handle.retry("late"),
    "retry with a delay": lambda _queue, handle: handle.retry("late", delay=0),
    "fail": lambda _queue, handle: handle.fail("late"),
    "release": lambda _queue, handle: handle.release(),
    "heartbeat": lambda _queue, handle: handle.heartbeat(),
    "heartbeat of a length": lambda _queue, handle: handle.heartbeat(3600),
    "ack_many": lambda queue, handle: queue.ack_many([handle]),
    "heartbeat_many": lambda queue, handle: queue.heartbeat_many([handle]),
    "release_many": lambda queue, handle: release_many(queue, [handle]),
}


@pytest.mark.parametrize("outdate", OUTDATES)
def test_a_stale_handle_changes_nothing_whatever_it_calls(
    queue: Queue, table: JobTable, outdate: Outdate
) -> None:
    """Field cases B46, B47 and B51: a claim has an identity of its own, not a worker's."""
    job = queue.enqueue(1)
    (stale,) = queue.claim("w")
    outdate(queue, table, stale)
    before = table.contents()
    for name, call in CALLS.items():
        assert not call(queue, stale), name
        assert table.contents() == before, name
    assert stale.id == job


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS.keys())
def test_a_stale_handle_learns_that_its_claim_is_lost(
    queue: Queue, table: JobTable, call: Callable[[Queue, JobHandle], Any]
) -> None:
    queue.enqueue(1)
    (stale,) = queue.claim("w")
    taken_by_another(queue, table, stale)
    call(queue, stale)
    assert (stale.lost, stale.settled) == (True, False)


@pytest.mark.parametrize("max_attempts", [1, 2])
def test_the_last_attempt_of_a_stale_handle_buries_nothing(
    queue: Queue, table: JobTable, max_attempts: int
) -> None:
    queue.enqueue(1, max_attempts=max_attempts)
    (stale,) = queue.claim("w")
    assert stale.release()
    before = table.contents()
    assert not stale.retry("late")
    assert table.contents() == before


def test_a_stale_handle_leaves_the_new_holder_its_whole_claim(
    queue: Queue, table: JobTable
) -> None:
    """Field case B51: the late finisher gets a clear answer, the new holder notices nothing."""
    queue.enqueue(1)
    (stale,) = queue.claim("w")
    table.lapse(stale.id)
    (holder,) = queue.claim("w")
    for call in CALLS.values():
        call(queue, stale)
    assert holder.heartbeat()
    assert holder.ack()


def test_a_handle_of_another_schema_is_powerless_here(
    open_store: Callable[..., PostgresStore], queue: Queue, table: JobTable, schema: str
) -> None:
    """Field case B109: two stores in one database never touch each other's jobs."""
    there = open_store(schema=schema + "_b")
    try:
        away = there.queue("mail")
        assert away.enqueue(1) == queue.enqueue(1)
        (foreign,) = away.claim("w")
        queue.claim("w")
        before = table.contents()
        for call in (queue.ack_many, queue.heartbeat_many):
            with pytest.raises(InvalidOption):
                call([foreign])
        assert table.contents() == before
        assert foreign.ack()
        assert table.contents() == before
    finally:
        with there.transaction() as tx:
            tx.execute(f'DROP SCHEMA "{schema}_b" CASCADE')
