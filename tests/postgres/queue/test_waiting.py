"""Section 5 of the contract: who waits for a job sleeps until there is one."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import Any

import pytest

from alkstore import StopToken
from alkstore.traits import JobHandle, Queue
from alkstore_postgres import PostgresStore
from alkstore_postgres.queue import claimer
from tests.support.job_table import JobTable
from tests.support.timing import in_time
from tests.support.waiting import wait_until
from tests.support.workers import release_many

LIMIT = 30.0
"""How long a wait may last that something is to end, in seconds."""


@pytest.fixture(autouse=True)
def _no_poll(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a waiter look again for a reason only, not after 5 s: what ends a wait has woken it."""
    monkeypatch.setattr(claimer, "_POLL", 600.0)


class Waiter:
    """A thread that waits for a job.

    Attributes:
        handles: What it got, once it has returned.
        took: How long that was, in seconds.
    """

    def __init__(self, queue: Queue, **options: Any) -> None:
        self.handles: list[JobHandle] | None = None
        self.took = 0.0
        self._thread = threading.Thread(target=self._wait, args=(queue, options), daemon=True)
        self._thread.start()

    def _wait(self, queue: Queue, options: dict[str, Any]) -> None:
        begin = time.monotonic()
        self.handles = queue.claim_wait("w", **options)
        self.took = time.monotonic() - begin

    def result(self) -> list[JobHandle]:
        """Return what it got, which must come without a poll."""
        self._thread.join(LIMIT)
        assert self.handles is not None, "it still waits"
        return self.handles


def waits(store: PostgresStore, name: str) -> bool:
    """Return whether somebody in this store waits for wakes of *name*."""
    waiters = store._parts.hub.waiters
    return name in waiters._sinks or name in waiters._shared


@contextmanager
def waiting(store: PostgresStore, queue: Queue, **options: Any) -> Iterator[Waiter]:
    """Run a waiter that sleeps already; stop it at the end."""
    stop = StopToken()
    waiter = Waiter(queue, stop=stop, **options)
    wait_until(lambda: store._parts.hub.state == "listening")
    wait_until(lambda: waits(store, queue.name))
    time.sleep(0.1)  # it has looked once and sleeps
    assert waiter.handles is None
    try:
        yield waiter
    finally:
        stop.cancel()
        waiter.result()


def test_it_returns_at_once_when_there_is_a_job(queue: Queue) -> None:
    jobs = queue.enqueue_many(range(3))
    assert [handle.id for handle in Waiter(queue, limit=2).result()] == jobs[:2]


def test_an_enqueue_of_this_process_wakes_it(store: PostgresStore, queue: Queue) -> None:
    with waiting(store, queue) as waiter:
        job = queue.enqueue(1)
        assert [handle.id for handle in waiter.result()] == [job]


ENQUEUE = """
import sys, alkstore_postgres
with alkstore_postgres.open(sys.argv[1], sys.argv[2]) as store:
    print(store.queue("mail").enqueue(1))
"""


def test_an_enqueue_of_another_process_wakes_it(
    store: PostgresStore, queue: Queue, conninfo: str, schema: str
) -> None:
    with waiting(store, queue) as waiter:
        command = [sys.executable, "-c", ENQUEUE, conninfo, schema]
        done = subprocess.run(command, check=True, capture_output=True, text=True)
        assert [handle.id for handle in waiter.result()] == [int(done.stdout)]


def enqueue_many(store: PostgresStore, queue: Queue) -> None:
    queue.enqueue_many([1])


def enqueue_in_a_transaction(store: PostgresStore, queue: Queue) -> None:
    with store.transaction() as tx:
        store.enqueue_tx(tx, queue.name, 1)


def enqueue_in_a_stream(store: PostgresStore, queue: Queue) -> None:
    """Send more wakes than go out one by one: they are merged."""
    other = store.queue("other")
    for _ in range(10):
        other.enqueue(0)
    queue.enqueue(1)


@pytest.mark.parametrize("enqueue", [enqueue_many, enqueue_in_a_transaction, enqueue_in_a_stream])
def test_every_way_to_enqueue_wakes_it(
    open_store: Callable[..., PostgresStore],
    store: PostgresStore,
    queue: Queue,
    enqueue: Callable[[PostgresStore, Queue], None],
) -> None:
    with waiting(store, queue) as waiter:
        there = open_store()
        enqueue(there, there.queue("mail"))
        assert len(waiter.result()) == 1


def retry(queue: Queue, handle: JobHandle) -> None:
    assert handle.retry("x", delay=0)


def release(queue: Queue, handle: JobHandle) -> None:
    assert handle.release()


def release_together(queue: Queue, handle: JobHandle) -> None:
    assert release_many(queue, [handle]) == 1


def requeue(queue: Queue, handle: JobHandle) -> None:
    assert handle.fail("x")
    assert queue.requeue([handle.id]) == 1


@pytest.mark.parametrize("give_back", [retry, release, release_together, requeue])
def test_every_way_to_give_a_job_back_wakes_it(
    open_store: Callable[..., PostgresStore],
    store: PostgresStore,
    queue: Queue,
    give_back: Callable[[Queue, JobHandle], None],
) -> None:
    there = open_store().queue("mail")
    job = there.enqueue(1)
    (handle,) = there.claim("w")
    with waiting(store, queue) as waiter:
        give_back(there, handle)
        assert [handle.id for handle in waiter.result()] == [job]


def lateness(table: JobTable, job: int, due: datetime) -> float:
    """Return how many seconds after *due* a job was claimed that is held, on the store clock."""
    row = table.row(job)
    held_for = timedelta(seconds=row["visibility_timeout"])
    late: timedelta = row["claim_expires_at"] - held_for - due
    assert late >= timedelta(0), "it was claimed too early"
    return late.total_seconds()


def test_it_wakes_when_a_delayed_job_becomes_due(queue: Queue, table: JobTable) -> None:
    queue.enqueue(1, delay=3600, priority=9)

    def wait_for_it() -> float:
        job = queue.enqueue(1, delay=0.5)
        assert [handle.id for handle in Waiter(queue).result()] == [job]
        return lateness(table, job, table.row(job)["run_at"])

    in_time(wait_for_it, 1.5)


def test_it_wakes_when_a_claim_lapses(store: PostgresStore, table: JobTable) -> None:
    queue = store.queue("mail", visibility_timeout=0.5)

    def wait_for_it() -> float:
        job = queue.enqueue(1)
        queue.claim("somebody who dies")
        lapses = table.row(job)["claim_expires_at"]
        (handle,) = Waiter(queue).result()
        assert (handle.id, handle.attempt) == (job, 2)
        late = lateness(table, job, lapses)
        assert handle.ack()
        return late

    in_time(wait_for_it, 1.5)


@pytest.mark.parametrize("timeout", [0, 0.2, timedelta(seconds=0.2)])
def test_a_time_limit_ends_it(queue: Queue, timeout: Any) -> None:
    queue.enqueue(1, delay=3600)
    length = timeout.total_seconds() if isinstance(timeout, timedelta) else timeout

    def wait_in_vain() -> float:
        waiter = Waiter(queue, timeout=timeout)
        assert waiter.result() == []
        assert waiter.took >= length
        return waiter.took

    in_time(wait_in_vain, length + 0.5)


def test_without_a_moment_to_wait_a_ready_job_is_still_claimed(queue: Queue) -> None:
    job = queue.enqueue(1)
    assert [handle.id for handle in queue.claim_wait("w", timeout=0)] == [job]


def test_a_stop_ends_it_within_a_tenth_of_a_second(store: PostgresStore, queue: Queue) -> None:

    def cancel_a_wait() -> float:
        stop = StopToken()
        waiter = Waiter(queue, stop=stop)
        wait_until(lambda: store._parts.hub.state == "listening")
        wait_until(lambda: waits(store, queue.name))
        begin = time.monotonic()
        stop.cancel()
        assert waiter.result() == []
        return time.monotonic() - begin

    in_time(cancel_a_wait, 0.1)


def test_a_token_that_was_cancelled_before_claims_nothing(queue: Queue) -> None:
    stop = StopToken()
    stop.cancel()
    queue.enqueue(1)
    assert queue.claim_wait("w", stop=stop) == []
    assert list(queue.jobs("w", stop=stop)) == []
    assert queue.stats().ready == 1


def test_nothing_is_left_behind_by_waiting(store: PostgresStore, queue: Queue) -> None:
    stop = StopToken()
    queue.claim_wait("w", timeout=0, stop=stop)
    assert not stop._own.waiters
    assert not waits(store, queue.name)


def test_something_that_is_no_token_leaves_nothing_behind(
    store: PostgresStore, queue: Queue
) -> None:
    with pytest.raises((AttributeError, TypeError, ValueError)):
        queue.claim_wait("w", timeout=0, stop="now")  # type: ignore[arg-type]
    assert not waits(store, queue.name)


def test_iterating_over_jobs_goes_on_until_the_stop(queue: Queue) -> None:
    ids = queue.enqueue_many(range(5))
    stop = StopToken()
    seen = []
    for handle in queue.jobs("w", stop=stop):
        seen.append(handle.id)
        assert handle.ack()
        if len(seen) == 5:
            ids.append(queue.enqueue("later"))
        if len(seen) == 6:
            stop.cancel()
    assert seen == ids


def test_iterating_holds_one_job_at_a_time(queue: Queue, table: JobTable) -> None:
    queue.enqueue_many(range(3))
    jobs = queue.jobs("w")
    next(jobs)
    assert queue.stats().running == 1
    next(jobs)
    assert queue.stats().running == 2
