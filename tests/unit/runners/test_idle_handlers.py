"""A handler thread that has nothing to do claims by itself: nobody has to wake it then."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from alkstore.errors import DatabaseError
from alkstore.memory import MemoryStore
from alkstore.memory.queue import MemoryQueue
from alkstore.stop_token import StopToken
from alkstore.traits import JobHandle, Queue
from tests.support.waiting import wait_until


@dataclass
class Claims:
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
def claims(monkeypatch: pytest.MonkeyPatch) -> Claims:
    claims = Claims([])
    wait = MemoryQueue.claim_wait

    def waiting(
        queue: MemoryQueue, worker_id: str, limit: int, *, stop: StopToken
    ) -> list[JobHandle]:
        claims.waited.append(threading.current_thread().name)
        if claims.fail is not None:
            failure, claims.fail = claims.fail, None
            raise failure
        return wait(queue, worker_id, limit, stop=stop)

    monkeypatch.setattr(MemoryQueue, "claim_wait", waiting)
    return claims


def test_whoever_is_idle_claims_and_begins_in_the_same_thread(
    store: MemoryStore, queue: Queue, claims: Claims
) -> None:
    ran: list[str] = []
    worker = store.start_worker("emails", lambda _job: ran.append(threading.current_thread().name))
    wait_until(lambda: len(claims.waited) == 1)
    for number in range(1, 4):
        queue.enqueue(number)
        wait_until(lambda number=number: len(claims.waited) > number)  # type: ignore[misc]
    handler = "alkstore worker emails: handler 1"
    assert ran == [handler] * 3
    assert claims.waited == ["alkstore worker emails: claims", *[handler] * 3]
    assert worker.stop(5)


def test_while_all_handlers_are_busy_the_claimer_claims(
    store: MemoryStore, queue: Queue, claims: Claims
) -> None:
    go_on = threading.Event()
    queue.enqueue_many(range(2))
    worker = store.start_worker("emails", lambda _job: go_on.wait(60), concurrency=3)
    wait_until(lambda: worker.health().details["running"] == 2 and bool(claims.waited))
    assert set(claims.waited) == {"alkstore worker emails: claims"}
    go_on.set()
    assert worker.stop(5)


@pytest.mark.parametrize(
    "failure", [DatabaseError("away", retryable=True), SystemExit(3), KeyboardInterrupt()]
)
def test_what_its_claim_raises_is_the_claimers_failure(
    store: MemoryStore, queue: Queue, claims: Claims, failure: BaseException
) -> None:
    done: list[object] = []
    worker = store.start_worker("emails", lambda job: done.append(job.payload))
    queue.enqueue("before")
    wait_until(lambda: len(claims.waited) > 1)
    claims.fail = failure
    queue.enqueue("woken")
    wait_until(lambda: worker.last_error is failure)
    queue.enqueue("after")
    wait_until(lambda: done == ["before", "woken", "after"])
    wait_until(lambda: worker.state == "working")
    assert worker.health().details["failures"] == 1
    assert worker.stop(5)


def test_a_stop_ends_its_wait_at_once(store: MemoryStore, queue: Queue, claims: Claims) -> None:
    worker = store.start_worker("emails", lambda _job: None)
    queue.enqueue(1)
    wait_until(lambda: len(claims.waited) > 1)
    assert worker.stop(30)
    assert worker.state == "stopped"
    assert queue.size() == 0
