"""Section 5 of the contract: a claim that lapsed but that nobody took is the holder's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from alkstore.traits import JobHandle, Queue
from alkstore_postgres import PostgresStore
from tests.support.job_table import JobTable
from tests.support.workers import release_many

CALLS: dict[str, Callable[[Queue, JobHandle], Any]] = {
    "ack": lambda _queue, handle: handle.ack(),
    "retry": lambda _queue, handle: handle.retry("x"),
    "fail": lambda _queue, handle: handle.fail("x"),
    "release": lambda _queue, handle: handle.release(),
    "heartbeat": lambda _queue, handle: handle.heartbeat(),
    "ack_many": lambda queue, handle: queue.ack_many([handle]),
    "heartbeat_many": lambda queue, handle: queue.heartbeat_many([handle]),
    "release_many": lambda queue, handle: release_many(queue, [handle]),
}
calls = pytest.mark.parametrize("call", CALLS.values(), ids=CALLS.keys())


@pytest.fixture
def lapsed(queue: Queue, table: JobTable) -> JobHandle:
    """Return the handle of a lapsed claim that nobody has noticed."""
    queue.enqueue({"n": 1})
    (handle,) = queue.claim("w")
    table.lapse(handle.id)
    return handle


@pytest.fixture
def swept(queue: Queue, table: JobTable, lapsed: JobHandle) -> JobHandle:
    """Return the handle of a lapsed claim that somebody's sweep gave back, but did not take."""
    table.move(lapsed.id, "run_at", -5)
    first = queue.enqueue("first", priority=1)
    assert [handle.id for handle in queue.claim("somebody else")] == [first]
    row = table.row(lapsed.id)
    assert row["claimable"]
    assert row["claim_id"] is not None
    return lapsed


@calls
def test_the_holder_of_a_lapsed_claim_can_do_everything(
    queue: Queue, lapsed: JobHandle, call: Callable[[Queue, JobHandle], Any]
) -> None:
    assert call(queue, lapsed)
    # A batch is released for handlers that have settled nothing.
    assert lapsed.lost == (call is CALLS["release_many"])


@calls
def test_so_it_can_after_somebodys_sweep(
    queue: Queue, swept: JobHandle, call: Callable[[Queue, JobHandle], Any]
) -> None:
    assert call(queue, swept)
    assert swept.lost == (call is CALLS["release_many"])


def test_a_heartbeat_takes_a_swept_job_out_of_reach_again(
    queue: Queue, swept: JobHandle, table: JobTable
) -> None:
    assert swept.heartbeat()
    assert queue.claim("w") == []
    row = table.row(swept.id)
    assert not row["claimable"]
    assert row["attempts"] == 1
    assert swept.ack()


def test_a_batch_of_heartbeats_does_too(queue: Queue, swept: JobHandle) -> None:
    assert queue.heartbeat_many([swept]) == 1
    assert queue.claim("w") == []
    assert swept.ack()


@pytest.mark.parametrize("call", ["release", "release_many"])
def test_a_released_swept_job_has_its_attempt_back(
    queue: Queue, swept: JobHandle, table: JobTable, call: str
) -> None:
    assert CALLS[call](queue, swept)
    assert table.row(swept.id)["attempts"] == 0
    assert queue.claim("w")[0].attempt == 1


def test_a_retried_swept_job_waits_for_its_gap(queue: Queue, swept: JobHandle) -> None:
    assert swept.retry("x")
    assert queue.claim("w") == []


def test_a_swept_job_is_still_shown_as_held(
    store: PostgresStore, queue: Queue, swept: JobHandle
) -> None:
    job = store.get_job(swept.id)
    assert job is not None
    assert (job.state, job.worker_id) == ("processing", "w")
    assert queue.stats().ready == 1
    assert queue.stats().running == 1  # the first one


@pytest.mark.parametrize("which", ["lapsed", "swept"])
def test_the_next_claim_takes_it_as_another_attempt(
    request: pytest.FixtureRequest, queue: Queue, table: JobTable, which: str
) -> None:
    """Field case B46: a crashed worker's job comes back after its own visibility timeout."""
    stale: JobHandle = request.getfixturevalue(which)
    (again,) = queue.claim("w")
    assert (again.id, again.attempt) == (stale.id, 2)
    assert not stale.ack()
    assert again.ack()
