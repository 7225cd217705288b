"""Workers settle what ended, and go on whatever a handler does."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from alkstore.errors import InvalidName, InvalidOption
from alkstore.traits import JobHandle, Queue
from alkstore_postgres import PostgresStore
from tests.support.rows import Rows
from tests.support.waiting import wait_until
from tests.support.workers import Start, is_empty


def test_bad_arguments_are_refused_before_any_thread_starts(store: PostgresStore) -> None:
    before = threading.active_count()
    with pytest.raises(InvalidName):
        store.start_worker("", print)
    with pytest.raises(InvalidOption):
        store.start_worker("emails", print, 0)
    with pytest.raises(InvalidOption):
        store.start_worker("emails", print, 1_001)
    with pytest.raises(InvalidOption):
        store.start_worker("emails", "handler")  # type: ignore[arg-type]
    with pytest.raises(InvalidOption):
        store.start_worker("emails", print, visibility_timeout=0)
    assert threading.active_count() == before


def test_a_handler_that_returns_acknowledges(queue: Queue, start: Start) -> None:
    got: list[Any] = []
    start(queue, lambda job: got.append(job.payload))
    queue.enqueue({"to": "ada"})
    wait_until(lambda: is_empty(queue))
    assert got == [{"to": "ada"}]
    assert queue.dead() == []


def test_a_handler_that_raises_costs_an_attempt_on_the_curve(
    store: PostgresStore, start: Start, rows: Rows
) -> None:
    queue = store.queue("emails", max_attempts=2, base_backoff=30)
    job_id = queue.enqueue(1)
    attempts: list[int] = []

    def handler(job: JobHandle) -> None:
        attempts.append(job.attempt)
        raise ValueError(f"no such host, {job.attempt}")

    start(queue, handler)
    wait_until(lambda: queue.stats().retrying == 1)
    assert 25 < rows.gap(job_id) <= 30
    rows.make_due()
    store.notify("emails")
    wait_until(lambda: queue.stats().dead == 1)
    assert attempts == [1, 2]
    assert queue.dead()[0].error == "no such host, 2"


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (ImportError("no module named x"), "no module named x"),
        (SystemExit(3), "SystemExit: 3"),
        (KeyboardInterrupt(), "KeyboardInterrupt"),
        (GeneratorExit(), "GeneratorExit"),
        (MemoryError(), "MemoryError"),
        (RecursionError("deep"), "deep"),
        (ValueError("nul \0 and \ud800"), "nul \\x00 and \\ud800"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, BaseException) else "",
)
def test_whatever_a_handler_raises_the_next_job_runs_and_the_reason_is_kept(
    queue: Queue, start: Start, error: BaseException, text: str
) -> None:
    """Field cases B54 and B92."""
    got: list[str] = []

    def handler(job: JobHandle) -> None:
        if job.payload == "bad":
            raise error
        got.append(job.payload)

    worker = start(queue, handler)
    queue.enqueue("bad", max_attempts=1)
    queue.enqueue("good")
    wait_until(lambda: is_empty(queue))
    assert got == ["good"]
    assert [letter.error for letter in queue.dead()] == [text]
    assert worker.state == "working"


def test_a_payload_that_does_not_decode_is_a_failed_attempt(
    queue: Queue, start: Start, rows: Rows
) -> None:
    """Field case B54."""
    got: list[Any] = []
    rows.damage(queue.enqueue("x", max_attempts=1))
    queue.enqueue("good")
    start(queue, lambda job: got.append(job.payload))
    wait_until(lambda: is_empty(queue))
    assert got == ["good"]
    assert len(queue.dead()) == 1


@pytest.mark.parametrize("raises", [False, True])
def test_what_a_handler_settled_itself_stays_so(
    store: PostgresStore, queue: Queue, start: Start, raises: bool
) -> None:
    def handler(job: JobHandle) -> None:
        assert job.retry("later", delay=3_600)
        if raises:
            raise ValueError("too late")

    job_id = queue.enqueue(1)
    worker = start(queue, handler)
    wait_until(lambda: worker.health().details["in_hand"] == 0 and queue.stats().retrying)
    assert worker.stop()
    job = store.get_job(job_id)
    assert job is not None
    assert (job.state, job.attempts) == ("pending", 1)
