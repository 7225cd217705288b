"""A worker claims ahead of its handlers, and lets go of what they do not come to."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest

from alkstore.runners import WorkerRunner, pool
from alkstore.traits import JobHandle, Queue
from alkstore_postgres import PostgresStore
from tests.support.waiting import wait_until
from tests.support.workers import Start, is_empty


def test_claims_that_no_handler_has_begun_are_released_at_once(
    queue: Queue, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Field case B88."""
    started, release = threading.Event(), threading.Event()

    def handler(_job: JobHandle) -> None:
        started.set()
        release.wait(10)

    worker = WorkerRunner(queue, handler)
    monkeypatch.setattr(worker, "_ahead", lambda: 4)
    queue.enqueue_many(range(5))
    worker.start()
    assert started.wait(5)
    wait_until(lambda: queue.stats().running == 5, 5)
    worker.ask_to_end(30)
    wait_until(lambda: queue.stats().running == 1, 0.9)
    assert queue.stats().ready == 4
    release.set()
    assert worker.join(5)
    assert queue.size() == 4


def test_claims_ahead_are_given_back_when_the_handlers_turn_out_slow(
    queue: Queue, monkeypatch: pytest.MonkeyPatch
) -> None:
    started, release = threading.Event(), threading.Event()

    def handler(_job: JobHandle) -> None:
        started.set()
        release.wait(10)

    worker = WorkerRunner(queue, handler)
    ahead = [4]
    monkeypatch.setattr(worker, "_ahead", lambda: ahead[0])
    queue.enqueue_many(range(5))
    worker.start()
    assert started.wait(5)
    wait_until(lambda: queue.stats().running == 5, 5)
    ahead[0] = 0
    wait_until(lambda: queue.stats().ready == 4, 5)
    release.set()
    wait_until(lambda: is_empty(queue))
    assert worker.stop()


def test_claims_ahead_are_given_back_while_the_worker_waits_for_more(
    queue: Queue, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has room for more, and there is no more: others may be idle meanwhile."""
    started, release, waits = threading.Event(), threading.Event(), threading.Event()
    claim_wait = type(queue).claim_wait

    def handler(_job: JobHandle) -> None:
        started.set()
        release.wait(60)

    def waiting(self: Queue, worker_id: str, limit: int, **options: Any) -> list[JobHandle]:
        # After one that finds nothing there is no other for a while: not before the handler runs.
        assert started.wait(30)
        if self.stats().running == 4:
            waits.set()
        return claim_wait(self, worker_id, limit, **options)

    monkeypatch.setattr(type(queue), "claim_wait", waiting)
    worker = WorkerRunner(queue, handler)
    ahead = [8]
    monkeypatch.setattr(worker, "_ahead", lambda: ahead[0])
    queue.enqueue_many(range(4))
    worker.start()
    assert waits.wait(30)
    assert queue.stats().running == 4
    ahead[0] = 0
    wait_until(lambda: queue.stats().ready == 3)
    release.set()
    wait_until(lambda: is_empty(queue))
    assert worker.stop()


def test_slow_jobs_that_come_after_a_stream_of_quick_ones_are_for_every_worker(
    open_store: Callable[..., PostgresStore], start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pool, "_RECALL_AFTER", 3600.0)
    here, there = (open_store().queue("emails") for _ in range(2))
    waits: list[bool] = []
    began: list[int] = []
    go_on = threading.Event()
    claim_wait = type(here).claim_wait

    def spy(self: Queue, *args: Any, **options: Any) -> list[JobHandle]:
        waits.append(options["timeout"] is None)
        handles = claim_wait(self, *args, **options)
        waits.append(False)
        return handles

    def handler(job: JobHandle) -> None:
        if job.payload == "slow":
            began.append(job.id)
            go_on.wait(60)

    monkeypatch.setattr(type(here), "claim_wait", spy)
    here.enqueue_many(range(1_000))
    worker = start(here, handler)
    wait_until(lambda: is_empty(here) and waits and waits[-1], 30)
    # Again where the machine stood still amid the stream: nothing was claimed ahead then, so that
    # the worker waits for as long as it takes at once, and this is no pause yet.
    while not worker._pausing:
        here.enqueue_many(range(1_000))
        wait_until(lambda: is_empty(here) and waits[-1], 30)
    assert worker.health().details["finished"] % 1_000 == 0
    slow = here.enqueue_many(["slow"] * 5)
    wait_until(lambda: began)
    others = there.claim("another", 5)
    assert sorted([*began, *(job.id for job in others)]) == slow
    assert there.ack_many(others) == 4
    go_on.set()
    wait_until(lambda: is_empty(here))


@pytest.mark.parametrize("kind", ["on their last attempt", "tried before"])
def test_dangerous_jobs_are_claimed_one_by_one(
    queue: Queue, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """A process that one of them ends takes no attempt of the others with it."""
    queue.enqueue_many(range(6), max_attempts=1 if kind == "on their last attempt" else 3)
    if kind == "tried before":
        for handle in queue.claim("one that failed", 6):
            handle.retry("no", delay=0)
    limits: list[int] = []
    claim_wait = type(queue).claim_wait

    def spy(self: Queue, worker_id: str, limit: int, **options: Any) -> list[JobHandle]:
        limits.append(limit)
        return claim_wait(self, worker_id, limit, **options)

    monkeypatch.setattr(type(queue), "claim_wait", spy)
    worker = WorkerRunner(queue, lambda _: None)
    monkeypatch.setattr(worker, "_ahead", lambda: 4)
    worker.start()
    wait_until(lambda: is_empty(queue))
    assert worker.stop()
    assert set(limits) == {1}
