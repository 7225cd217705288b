"""A worker's end: what runs may finish, the rest goes back with its attempts."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from datetime import datetime

from alkstore.runners import WorkerRunner
from alkstore.traits import JobHandle, Queue
from alkstore_postgres import PostgresStore
from tests.support.timing import Stopwatch
from tests.support.waiting import wait_until
from tests.support.workers import Start, is_empty


def test_running_handlers_may_finish_before_stop_returns(queue: Queue, start: Start) -> None:
    """Field case B88."""
    started = threading.Event()

    def handler(_job: JobHandle) -> None:
        started.set()
        time.sleep(0.5)

    worker = start(queue, handler)
    queue.enqueue(1)
    assert started.wait(5)
    later = queue.enqueue(2)
    assert worker.stop(5) is True
    assert worker.state == "stopped"
    assert queue.size() == 1
    assert queue.cancel(later)


def test_heartbeats_go_on_during_a_stop(store: PostgresStore, start: Start) -> None:
    """Field case B52."""
    queue = store.queue("emails", visibility_timeout=5)
    attempts: list[int] = []
    started, release = threading.Event(), threading.Event()

    def handler(job: JobHandle) -> None:
        attempts.append(job.attempt)
        started.set()
        release.wait(30)

    def ends() -> datetime:
        job = store.get_job(job_id)
        assert job is not None
        assert job.claim_expires_at is not None
        return job.claim_expires_at

    worker = start(queue, handler)
    job_id = queue.enqueue(1)
    assert started.wait(5)
    stopping = threading.Thread(target=worker.stop, args=(30,))
    stopping.start()
    thief = start(queue, handler)
    for _ in range(3):
        before = ends()
        wait_until(lambda before=before: ends() > before)  # type: ignore[misc]
    release.set()
    stopping.join(10)
    assert not stopping.is_alive()
    assert attempts == [1]
    assert is_empty(queue)
    assert thief.last_error is None


def test_when_the_time_is_up_claims_are_released_with_their_attempts(
    store: PostgresStore, queue: Queue, start: Start
) -> None:
    """Field case B88: visible at once, nothing burned; what finishes later is powerless."""
    started = threading.Barrier(4)
    release = threading.Event()
    answers: list[bool] = []

    def handler(job: JobHandle) -> None:
        started.wait(5)
        release.wait(10)
        answers.append(job.ack())

    ids = queue.enqueue_many(range(3))
    worker = start(queue, handler, 3)
    started.wait(5)
    with Stopwatch() as stopping:
        assert worker.stop(0.3) is False
    assert stopping.seconds < 1.4
    jobs = [store.get_job(one) for one in ids]
    assert [(job.state, job.attempts) for job in jobs if job] == [("pending", 0)] * 3
    thieves = queue.claim("thief", 3)
    release.set()
    assert worker.join(5)
    assert answers == [False] * 3
    assert queue.ack_many(thieves) == 3
    assert worker.last_error is None


def test_a_second_stop_with_less_time_shortens_the_first(queue: Queue, start: Start) -> None:
    """Field case B88: a second SIGTERM means at once."""
    started, release = threading.Event(), threading.Event()

    def handler(_job: JobHandle) -> None:
        started.set()
        release.wait(10)

    worker = start(queue, handler)
    queue.enqueue(1)
    assert started.wait(5)
    patient = threading.Thread(target=worker.stop, args=(30,))
    patient.start()
    assert worker.stop(0) is False
    wait_until(lambda: queue.stats().ready == 1)
    release.set()
    patient.join(5)
    assert not patient.is_alive()


def test_a_handler_may_stop_its_own_worker(queue: Queue, start: Start) -> None:
    answers: list[bool] = []

    def handler(_job: JobHandle) -> None:
        answers.append(workers[0].stop(30))

    workers: list[WorkerRunner] = []
    queue.enqueue(1)
    worker = WorkerRunner(queue, handler)
    workers.append(worker)
    worker.start()
    assert worker.join(5)
    assert answers == [False]
    assert is_empty(queue)


def test_a_worker_ends_with_its_store(open_store: Callable[..., PostgresStore]) -> None:
    store = open_store()
    worker = store.start_worker("emails", lambda _job: None)
    with Stopwatch() as closing:
        store.close()
    assert worker.state == "stopped"
    assert closing.seconds < 2
