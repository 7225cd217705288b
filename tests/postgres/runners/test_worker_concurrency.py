"""As many handlers at once as was said, over a pool of any size."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable

from alkstore.traits import JobHandle, Queue
from alkstore_postgres import PostgresStore
from tests.support.waiting import wait_until
from tests.support.workers import Start, is_empty


def test_no_more_than_the_concurrency_run_at_once_and_all_of_them_do(
    queue: Queue, start: Start
) -> None:
    together = threading.Barrier(4)
    running = itertools.count(1)
    lock = threading.Lock()
    now, most = 0, 0

    def handler(_job: JobHandle) -> None:
        nonlocal now, most
        with lock:
            now += 1
            most = max(most, now)
        if next(running) <= 4:
            together.wait(10)
        with lock:
            now -= 1

    queue.enqueue_many(range(200))
    start(queue, handler, 4)
    wait_until(lambda: is_empty(queue))
    assert most == 4
    assert not together.broken


def test_every_job_of_many_runs_exactly_once(queue: Queue, start: Start) -> None:
    got: list[int] = []
    queue.enqueue_many(range(3_000))
    workers = [start(queue, lambda job: got.append(job.payload), 4) for _ in range(2)]
    wait_until(lambda: is_empty(queue), 30)
    assert sorted(got) == list(range(3_000))
    assert all(worker.last_error is None for worker in workers)


def test_handlers_may_use_a_pool_that_is_smaller_than_their_number(
    open_store: Callable[..., PostgresStore], start: Start
) -> None:
    """Field cases B85 and B86."""
    store = open_store(min_size=1, max_size=2)
    queue = store.queue("emails")
    other = store.queue("other")
    queue.enqueue_many(range(60))

    def handler(job: JobHandle) -> None:
        with store.transaction() as tx:
            tx.execute("SELECT pg_sleep(0.02)")
            store.enqueue_tx(tx, "other", job.payload)

    worker = start(queue, handler, 20)
    wait_until(lambda: is_empty(queue), 30)
    assert other.size() == 60
    assert worker.last_error is None


def test_no_connection_is_held_while_a_handler_runs(
    open_store: Callable[..., PostgresStore], start: Start
) -> None:
    """Field case B85: a pool of one connection."""
    store = open_store(min_size=1, max_size=1)
    queue = store.queue("emails")
    queue.enqueue("first")

    def handler(job: JobHandle) -> None:
        if job.payload == "first":
            queue.enqueue("second")

    start(queue, handler, 4)
    wait_until(lambda: is_empty(queue))
