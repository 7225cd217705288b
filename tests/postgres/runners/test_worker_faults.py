"""The database goes away under a worker: neither it nor a job is lost."""

from __future__ import annotations

import time
from typing import Any

import psycopg
import psycopg_pool
import pytest

from alkstore.runners import WorkerRunner
from alkstore.traits import JobHandle, Queue
from alkstore_postgres import PostgresStore
from tests.support.faults import Faults, settling
from tests.support.sessions import kill_sessions
from tests.support.waiting import wait_until
from tests.support.workers import Start, is_empty


def test_an_acknowledgement_survives_the_death_of_every_connection(
    queue: Queue, start: Start, connection: psycopg.Connection[Any], schema: str
) -> None:
    """Field cases B33 and B56."""
    attempts: list[int] = []

    def handler(job: JobHandle) -> None:
        attempts.append(job.attempt)
        assert kill_sessions(connection, schema)

    worker = start(queue, handler)
    queue.enqueue(1)
    wait_until(lambda: worker.health().details["finished"] == 1)
    wait_until(lambda: worker.health().details["in_hand"] == 0)
    assert worker.stop()
    assert attempts == [1]


@pytest.mark.parametrize("outcome", ["ack", "retry"])
def test_what_cannot_be_written_is_given_up_and_the_job_comes_back(
    store: PostgresStore,
    start: Start,
    faults: Faults,
    caplog: pytest.LogCaptureFixture,
    outcome: str,
) -> None:
    """Field cases B33 and B56."""
    queue = store.queue("emails", visibility_timeout=0.3)
    faults.block(*settling(store, "ack_many", "retry", "heartbeat_many"))
    attempts: list[int] = []

    def handler(job: JobHandle) -> None:
        attempts.append(job.attempt)
        if outcome == "retry" and job.attempt == 1:
            raise ValueError("no")

    worker = start(queue, handler)
    queue.enqueue(1)
    wait_until(lambda: "could not be written" in caplog.text, 20)
    assert worker.state == "backing-off"
    faults.end()
    store.notify("emails")
    wait_until(lambda: is_empty(queue))
    assert attempts[:2] == [1, 2]
    wait_until(lambda: worker.state == "working")


FAULTS: list[tuple[type[BaseException], bool]] = [
    (psycopg.OperationalError, False),
    (psycopg.OperationalError, True),
    (psycopg_pool.PoolTimeout, False),
    (KeyError, False),
    (MemoryError, True),
    (SystemExit, False),
    (KeyboardInterrupt, True),
]


@pytest.mark.parametrize(("error", "afterwards"), FAULTS)
def test_an_error_at_any_statement_of_a_turn_costs_neither_the_worker_nor_a_job(
    store: PostgresStore,
    faults: Faults,
    error: type[BaseException],
    afterwards: bool,
) -> None:
    """Field case B08: the kinds one by one, at the statements one by one."""
    queue = store.queue("emails", visibility_timeout=0.4, base_backoff=0.01, max_attempts=50)
    done: set[int] = set()
    failed_once: set[int] = set()

    def handler(job: JobHandle) -> None:
        if job.payload == "fails once" and job.id not in failed_once:
            failed_once.add(job.id)
            raise ValueError("no")
        time.sleep(0.15)  # long enough for a heartbeat
        done.add(job.id)

    for number in range(1, 9):
        ids = queue.enqueue_many(["good", "fails once", "good"])
        faults.seen.clear()
        raised = error("injected")
        faults.at(number, raised, afterwards=afterwards)
        worker = WorkerRunner(queue, handler, 2).start()
        wait_until(lambda: is_empty(queue), 30)
        assert done >= set(ids)
        assert worker.last_error is None or worker.health().details["failures"] == 1
        wait_until(lambda: worker.state == "working")  # noqa: B023 - called here only
        assert worker.health().healthy
        assert worker.stop(5)
