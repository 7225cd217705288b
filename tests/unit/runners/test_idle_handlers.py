"""A handler thread that has nothing to do claims by itself: nobody has to wake it then."""

from __future__ import annotations

import ctypes
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from alkstore.errors import DatabaseError
from alkstore.memory import MemoryStore
from alkstore.memory.queue import MemoryQueue
from alkstore.runners.claims import Claims, Seat
from alkstore.stop_token import StopToken
from alkstore.traits import JobHandle, Queue
from tests.support.waiting import wait_until


@dataclass
class Waits:
    """Which threads have waited for claims, and what the next wait is to raise."""

    waited: list[str]
    fail: BaseException | None = None


@pytest.fixture
def store() -> Iterator[MemoryStore]:
    """Return a store."""
    with MemoryStore() as store:
        yield store


@pytest.fixture
def queue(store: MemoryStore) -> Queue:
    return store.queue("emails")


@pytest.fixture
def waits(monkeypatch: pytest.MonkeyPatch) -> Waits:
    waits = Waits([])
    wait = MemoryQueue.claim_wait

    def waiting(
        queue: MemoryQueue, worker_id: str, limit: int, *, timeout: float | None, stop: StopToken
    ) -> list[JobHandle]:
        waits.waited.append(threading.current_thread().name)
        if waits.fail is not None:
            failure, waits.fail = waits.fail, None
            raise failure
        return wait(queue, worker_id, limit, timeout=timeout, stop=stop)

    monkeypatch.setattr(MemoryQueue, "claim_wait", waiting)
    return waits


def test_whoever_is_idle_claims_and_begins_in_the_same_thread(
    store: MemoryStore, queue: Queue, waits: Waits
) -> None:
    ran: list[str] = []
    worker = store.start_worker("emails", lambda _job: ran.append(threading.current_thread().name))
    wait_until(lambda: len(waits.waited) == 1)
    for number in range(1, 4):
        queue.enqueue(number)
        wait_until(lambda number=number: len(waits.waited) > number)  # type: ignore[misc]
    handler = "alkstore worker emails: handler 1"
    assert ran == [handler] * 3
    assert waits.waited == ["alkstore worker emails: claims", *[handler] * 3]
    assert worker.stop(5)


def test_while_all_handlers_are_busy_the_claimer_claims(
    store: MemoryStore, queue: Queue, waits: Waits
) -> None:
    go_on = threading.Event()
    queue.enqueue_many(range(2))
    worker = store.start_worker("emails", lambda _job: go_on.wait(60), concurrency=3)
    wait_until(lambda: worker.health().details["running"] == 2 and bool(waits.waited))
    assert set(waits.waited) == {"alkstore worker emails: claims"}
    go_on.set()
    assert worker.stop(5)


@pytest.mark.parametrize(
    "failure", [DatabaseError("away", retryable=True), SystemExit(3), KeyboardInterrupt()]
)
def test_what_its_claim_raises_is_the_claimers_failure(
    store: MemoryStore, queue: Queue, waits: Waits, failure: BaseException
) -> None:
    done: list[object] = []
    worker = store.start_worker("emails", lambda job: done.append(job.payload))
    queue.enqueue("before")
    wait_until(lambda: len(waits.waited) > 1)
    waits.fail = failure
    queue.enqueue("woken")
    wait_until(lambda: worker.last_error is failure)
    queue.enqueue("after")
    wait_until(lambda: done == ["before", "woken", "after"])
    wait_until(lambda: worker.state == "working")
    assert worker.health().details["failures"] == 1
    assert worker.stop(5)


def test_what_nobody_comes_for_is_done_by_whoever_sent_it() -> None:
    done: list[int] = []
    books = Claims()
    books.entrust(lambda: done.append(threading.get_ident()))
    assert done == [threading.get_ident()]
    # It lies there still, and hides nothing that comes after it.
    books.close()
    assert books.take(Seat()) is None
    assert len(done) == 1


@pytest.mark.parametrize("concurrency", [1, 2])
def test_a_time_limit_that_strikes_an_idle_handler_stops_nothing(
    store: MemoryStore, queue: Queue, concurrency: int
) -> None:
    """An application's limit for a handler, as an exception that is set from another thread."""
    threads: set[int] = set()
    done: list[object] = []
    together = threading.Barrier(concurrency)

    def handler(job: JobHandle) -> None:
        if job.payload == "first":
            threads.add(threading.get_ident())
            together.wait(30)
        done.append(job.payload)

    worker = store.start_worker("emails", handler, concurrency=concurrency)
    queue.enqueue_many(["first"] * concurrency)
    wait_until(lambda: len(done) == concurrency)
    wait_until(lambda: worker.health().details["in_hand"] == 0)
    for thread in threads:
        limit = ctypes.py_object(TimeoutError)
        assert ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), limit) == 1
    for number in range(6):
        queue.enqueue(number)
        time.sleep(0.01)
    wait_until(lambda: {*range(6)} <= {*done}, 40)
    assert worker.stop(5)
    assert worker.state == "stopped"


def test_a_stop_ends_its_wait_at_once(store: MemoryStore, queue: Queue, waits: Waits) -> None:
    worker = store.start_worker("emails", lambda _job: None)
    queue.enqueue(1)
    wait_until(lambda: len(waits.waited) > 1)
    assert worker.stop(30)
    assert worker.state == "stopped"
    assert queue.size() == 0
