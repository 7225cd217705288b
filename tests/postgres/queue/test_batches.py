"""Section 5 of the contract: claims are settled and held in batches too."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest

from alkstore import InvalidOption
from alkstore.traits import Queue
from alkstore_postgres import PostgresStore
from tests.support.job_table import JobTable


def test_a_batch_of_acks_finishes_what_is_held_and_counts_it(queue: Queue, table: JobTable) -> None:
    queue.enqueue_many(range(100))
    handles = queue.claim("w", 100)
    random.shuffle(handles)
    assert queue.ack_many(handles) == 100
    assert table.contents() == ([], [])
    assert all(handle.settled and not handle.lost for handle in handles)


def test_a_batch_tells_the_held_from_the_lost(queue: Queue, table: JobTable) -> None:
    queue.enqueue_many(range(6))
    handles = queue.claim("w", 6)
    held, taken, cancelled, released, acked, failed = handles
    table.lapse(taken.id)
    (again,) = queue.claim("w")
    assert again.id == taken.id
    assert queue.cancel(cancelled.id)
    assert released.release()
    assert acked.ack()
    assert failed.fail("x")

    assert queue.heartbeat_many(handles) == 1
    assert [handle.lost for handle in handles] == [False, True, True, False, False, False]
    assert queue.ack_many([*handles, again]) == 2
    assert held.settled
    assert again.settled
    assert not taken.settled
    assert queue.size() == 1  # the released one
    assert [letter.id for letter in queue.dead()] == [failed.id]


def test_a_handle_that_comes_twice_counts_once(queue: Queue) -> None:
    queue.enqueue(1)
    (handle,) = queue.claim("w")
    assert queue.heartbeat_many([handle, handle]) == 1
    assert queue.ack_many([handle, handle]) == 1
    assert not handle.lost


def test_stale_and_fresh_handles_of_one_job_are_told_apart(queue: Queue, table: JobTable) -> None:
    job = queue.enqueue(1)
    (stale,) = queue.claim("w")
    table.lapse(job)
    (fresh,) = queue.claim("w")
    assert queue.heartbeat_many([stale, fresh]) == 1
    assert (stale.lost, fresh.lost) == (True, False)
    assert queue.ack_many([stale, fresh]) == 1
    assert (stale.settled, fresh.settled) == (False, True)


def test_a_batch_of_heartbeats_extends_each_by_its_own_timeout(
    store: PostgresStore, queue: Queue, table: JobTable
) -> None:
    short = store.queue("mail", visibility_timeout=5).enqueue(1)
    long = queue.enqueue(2)
    handles = queue.claim("w", 2)
    table.lapse(short, long)
    with table.spanning() as span:
        assert queue.heartbeat_many(handles) == 2
    assert table.row(short)["claim_expires_at"] in span + 5
    assert table.row(long)["claim_expires_at"] in span + 300


def test_an_empty_batch_is_nothing(queue: Queue) -> None:
    assert queue.ack_many([]) == 0
    assert queue.heartbeat_many(iter(())) == 0


def test_the_largest_batch_goes_through_in_any_order(queue: Queue) -> None:
    queue.enqueue_many(range(10_000))
    handles = queue.claim("w", 10_000)
    assert len(handles) == 10_000
    random.shuffle(handles)
    assert queue.heartbeat_many(handles) == 10_000
    assert queue.ack_many(handles) == 10_000
    assert queue.size() == 0


def of_another_queue(store: PostgresStore) -> object:
    other = store.queue("other")
    other.enqueue(1)
    return other.claim("w")[0]


INTRUDERS: dict[str, Callable[[PostgresStore], Any]] = {
    "of another queue": of_another_queue,
    "None": lambda _store: None,
    "an id": lambda _store: 7,
}


@pytest.mark.parametrize("intruder", INTRUDERS.values(), ids=INTRUDERS.keys())
def test_what_is_no_handle_of_this_queue_is_refused_and_nothing_is_settled(
    store: PostgresStore,
    queue: Queue,
    table: JobTable,
    intruder: Callable[[PostgresStore], Any],
) -> None:
    queue.enqueue(1)
    (own,) = queue.claim("w")
    wrong = intruder(store)
    before = table.contents()
    with pytest.raises(InvalidOption):
        queue.ack_many([own, wrong])
    with pytest.raises(InvalidOption):
        queue.heartbeat_many([own, wrong])
    assert table.contents() == before
    assert not own.settled
