"""A log handler that raises costs a line: no job, no message and no runner pays for it.

Field case B08: a log shipper may be away in the same outage.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

from alkstore.errors import DatabaseError, StoreClosed
from alkstore.memory import ManualClock, MemoryStore
from alkstore.memory.queue import MemoryQueue
from alkstore.traits import JobHandle
from tests.support.broken_log import BrokenLog, broken_log
from tests.support.waiting import wait_until


@pytest.fixture
def log() -> Iterator[BrokenLog]:
    """Return the handler of all that the library logs."""
    with broken_log("alkstore") as log:
        yield log


@pytest.fixture
def store() -> Iterator[MemoryStore]:
    """Return a store whose clock stands still: what is retried is not due again."""
    with MemoryStore(clock=ManualClock()) as store:
        yield store


def fail(_job: JobHandle) -> None:
    raise ValueError("no")


def test_a_job_that_fails_is_retried_on_its_curve(store: MemoryStore, log: BrokenLog) -> None:
    job = store.queue("emails").enqueue(1)
    worker = store.start_worker("emails", fail)
    wait_until(lambda: worker.health().details["finished"])
    wait_until(lambda: not worker.health().details["in_hand"])
    row = store.get_job(job)
    assert row is not None
    assert (row.state, row.attempts) == ("pending", 1), "not given back: that would go on for ever"
    assert any("failed (attempt 1 of 3)" in line for line in log.refused)
    assert worker.last_error is None
    assert worker.health().details["finished"] == 1


def test_a_job_that_always_fails_becomes_a_dead_letter(store: MemoryStore, log: BrokenLog) -> None:
    queue = store.queue("emails", max_attempts=1)
    queue.enqueue(1)
    worker = store.start_worker("emails", fail)
    wait_until(lambda: queue.stats().dead == 1)
    assert worker.last_error is None
    assert log.refused


def test_a_message_that_a_relay_cannot_deliver_is_retried(
    store: MemoryStore, log: BrokenLog
) -> None:
    outbox = store.outbox("events")
    message = outbox.enqueue(1, max_attempts=2)
    relay = store.start_outbox("events", fail)
    wait_until(lambda: relay.health().details["finished"])
    wait_until(lambda: not relay.health().details["in_hand"])
    row = store.get_job(message)
    assert row is not None
    assert (row.state, row.attempts) == ("pending", 1)
    assert relay.last_error is None
    assert log.refused


def test_a_message_that_cannot_be_delivered_by_hand_is_retried(
    store: MemoryStore, log: BrokenLog
) -> None:
    outbox = store.outbox("events")
    message = outbox.enqueue(1)
    assert outbox.run_once("w", fail)
    row = store.get_job(message)
    assert row is not None
    assert (row.state, row.attempts, row.worker_id) == ("pending", 1, None)
    assert log.refused


def test_a_filter_that_raises_costs_no_more(store: MemoryStore) -> None:
    def refuse(_record: logging.LogRecord) -> bool:
        raise ConnectionError("away")

    logger = logging.getLogger("alkstore.runners.worker")
    logger.addFilter(refuse)
    try:
        job = store.queue("emails").enqueue(1)
        worker = store.start_worker("emails", fail)
        wait_until(lambda: worker.health().details["finished"])
        wait_until(lambda: not worker.health().details["in_hand"])
    finally:
        logger.removeFilter(refuse)
    row = store.get_job(job)
    assert row is not None
    assert (row.state, row.attempts) == ("pending", 1)


EXITS = [SystemExit(3), KeyboardInterrupt(), GeneratorExit()]


@pytest.mark.parametrize("raised", EXITS, ids=lambda raised: type(raised).__name__)
def test_an_exit_that_it_raises_costs_a_thread_no_more(
    store: MemoryStore, raised: BaseException
) -> None:
    queue = store.queue("emails", max_attempts=1)
    done: list[object] = []

    def handler(job: JobHandle) -> None:
        if job.payload == "fails":
            raise ValueError("no")
        done.append(job.payload)

    with broken_log("alkstore", raised) as log:
        queue.enqueue_many(["fails", "next"])
        worker = store.start_worker("emails", handler)
        wait_until(lambda: done == ["next"])
        wait_until(lambda: queue.stats().dead == 1)
        assert worker.last_error is None
        assert log.refused
        assert worker.stop(5)


@pytest.mark.parametrize("raised", EXITS, ids=lambda raised: type(raised).__name__)
def test_a_worker_outlives_a_claim_that_fails_and_an_exit_for_its_line(
    store: MemoryStore, monkeypatch: pytest.MonkeyPatch, raised: BaseException
) -> None:
    done: list[object] = []
    away = DatabaseError("away", retryable=True)
    claim = MemoryQueue.claim
    failing = [away]

    def fail_once(queue: MemoryQueue, worker_id: str, limit: int = 1) -> list[JobHandle]:
        if failing:
            raise failing.pop()
        return claim(queue, worker_id, limit)

    monkeypatch.setattr(MemoryQueue, "claim", fail_once)
    with broken_log("alkstore", raised) as log:
        store.queue("emails").enqueue("next")
        worker = store.start_worker("emails", lambda job: done.append(job.payload))
        wait_until(lambda: done == ["next"])
        wait_until(lambda: worker.state == "working")
        assert worker.last_error is away
        assert worker.health().details["failures"] == 1
        assert any("the claims failed" in line for line in log.refused)
        assert worker.stop(5)


def test_an_exit_goes_its_way_in_the_main_thread(store: MemoryStore) -> None:
    """It may be the one of a signal's handler, which runs there amid whatever it interrupts."""
    outbox = store.outbox("events")
    message = outbox.enqueue(1)
    with broken_log("alkstore", SystemExit(3)), pytest.raises(SystemExit):
        outbox.run_once("w", fail)
    row = store.get_job(message)
    assert row is not None
    assert (row.state, row.attempts) == ("pending", 1), "it is held by nobody"


def test_a_message_that_cannot_be_settled_is_told_of_all_the_same(
    store: MemoryStore, caplog: pytest.LogCaptureFixture
) -> None:
    outbox = store.outbox("events")
    outbox.enqueue(1)

    def fail_and_close(_: JobHandle) -> None:
        store.close()
        raise ValueError("no")

    with pytest.raises(StoreClosed):
        outbox.run_once("w", fail_and_close)
    assert ["delivery of message" in line for line in caplog.messages] == [True]


def test_a_line_is_said_to_come_from_whoever_said_it(
    store: MemoryStore, caplog: pytest.LogCaptureFixture
) -> None:
    store.outbox("events").enqueue(1)
    assert store.outbox("events").run_once("w", fail)
    (record,) = caplog.records
    assert (record.filename, record.funcName) == ("deliver.py", "log_failure")
