"""A runner that is well again says so, whichever part of it had failed; no next job is needed."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from alkstore.memory import MemoryStore
from alkstore.runners.attempt import Outcome
from alkstore.runners.claims import Claims
from alkstore.runners.heartbeats import Heartbeats
from alkstore.runners.status import Status
from alkstore.runners.threads import Threads
from alkstore.runners.worker import WorkerRunner
from alkstore.traits import JobHandle
from tests.support.waiting import wait_until


@pytest.fixture
def store() -> Iterator[MemoryStore]:
    """Return a store."""
    with MemoryStore() as store:
        yield store


def test_a_handler_thread_that_failed_is_well_without_another_job(
    store: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(_runner: WorkerRunner, handle: JobHandle) -> Outcome:
        handle.ack()
        raise KeyError("a bug behind the handler")

    monkeypatch.setattr(WorkerRunner, "_attempt", broken)
    store.queue("emails").enqueue(1)
    worker = store.start_worker("emails", print)
    wait_until(lambda: worker.last_error is not None)
    wait_until(lambda: worker.state == "working")
    assert worker.health().details["failures"] == 1
    assert store.queue("emails").size() == 0


def test_heartbeats_that_failed_are_well_when_nothing_is_in_hand(store: MemoryStore) -> None:
    claims, status = Claims(), Status("worker emails")
    heartbeats = Heartbeats(store.queue("emails"), claims, status)
    status.failed("heartbeats", KeyError("told by whoever starts the turns again"))
    claims.heart.unpark()
    heartbeats.turn()
    assert status.state != "backing-off"


def test_claims_that_failed_are_well_when_all_handlers_are_busy(
    store: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    start = Threads.start
    refused: list[str] = []

    def refuse_once(threads: Threads, thread: threading.Thread) -> None:
        if ": handler" in thread.name and not refused:
            refused.append(thread.name)
            raise RuntimeError("can't start new thread")
        start(threads, thread)

    monkeypatch.setattr(Threads, "start", refuse_once)
    begun, go_on = threading.Event(), threading.Event()

    def handler(_job: JobHandle) -> None:
        begun.set()
        go_on.wait(30)

    store.queue("emails").enqueue(1)
    worker = store.start_worker("emails", handler)
    try:
        assert begun.wait(10)
        assert refused
        wait_until(lambda: worker.state == "working")
        assert not go_on.is_set(), "its only handler is still busy"
    finally:
        go_on.set()
