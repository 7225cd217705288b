"""Claims that a runner releases together: each goes back as if it were released alone."""

from __future__ import annotations

import random

import pytest

from alkstore.errors import InvalidOption
from alkstore.traits import Queue
from alkstore_postgres import PostgresStore
from tests.support.ear import Ear
from tests.support.job_table import JobTable
from tests.support.workers import release_many


def test_released_jobs_are_as_they_were_before_the_claim(
    store: PostgresStore, queue: Queue, table: JobTable
) -> None:
    queue.enqueue_many(range(50), priority=2, expires=900)
    store.queue("mail", visibility_timeout=7, max_attempts=1).enqueue_many(range(50))
    store.queue("another").enqueue(1)
    before = table.contents()
    handles = queue.claim("w", 100)
    random.shuffle(handles)
    assert release_many(queue, handles) == 100
    assert table.contents() == before
    # Whoever works with one still has settled nothing, and can see it.
    assert all(handle.lost and not handle.settled for handle in handles)
    assert release_many(queue, handles) == 0
    assert table.contents() == before


def test_the_attempts_before_the_last_one_stay_counted(queue: Queue) -> None:
    queue.enqueue_many(range(2))
    for handle in queue.claim("w", 2):
        assert handle.retry("x", delay=0)
    assert release_many(queue, queue.claim("w", 2)) == 2
    assert [handle.attempt for handle in queue.claim("w", 2)] == [2, 2]


def test_a_batch_tells_the_held_from_the_lost(queue: Queue, table: JobTable) -> None:
    queue.enqueue_many(range(4))
    handles = queue.claim("w", 4)
    held, taken, cancelled, acked = handles
    table.lapse(taken.id)
    (again,) = queue.claim("w")
    assert again.id == taken.id
    assert queue.cancel(cancelled.id)
    assert acked.ack()
    others = table.row(taken.id)
    assert release_many(queue, [*handles, held]) == 1
    assert [handle.lost for handle in handles] == [True, True, True, False]
    assert [handle.settled for handle in handles] == [False, False, False, True]
    assert table.row(taken.id) == others
    assert queue.claim("w")[0].id == held.id


def test_one_wake_is_for_all_of_them_and_none_for_none(
    conninfo: str, schema: str, store: PostgresStore, queue: Queue
) -> None:
    with store.transaction() as tx:
        for number in range(20):
            store.enqueue_tx(tx, "mail", number)
    handles = queue.claim("w", 20)
    with Ear(conninfo, schema) as ear:
        assert release_many(queue, handles) == 20
        assert ear.heard() == ["mail"]
        assert release_many(queue, handles) == 0
        assert ear.heard() == []


def test_what_is_no_handle_of_this_queue_is_refused_and_nothing_is_released(
    store: PostgresStore, queue: Queue, table: JobTable
) -> None:
    other = store.queue("other")
    for each in (queue, other):
        each.enqueue(1)
    (own,), (wrong,) = queue.claim("w"), other.claim("w")
    before = table.contents()
    with pytest.raises(InvalidOption):
        release_many(queue, [own, wrong])
    assert table.contents() == before
    assert not own.settled
