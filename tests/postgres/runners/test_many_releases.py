"""The end of a worker with much in hand: everything goes back, however slow a commit is."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest

from alkstore.runners import WorkerRunner, pool, started
from alkstore.traits import JobHandle, Queue, Runner
from alkstore_postgres import PostgresStore
from tests.support.cursors import Run, around_statements
from tests.support.programs import Program
from tests.support.waiting import wait_until
from tests.support.workers import Start

HANDLERS = 100

SLOW = 0.01
"""How long each statement of a settling thread takes longer, in seconds."""


def is_settling() -> bool:
    return threading.current_thread().name.endswith(": settlement")


@dataclass
class Settling:
    """What the settling threads send.

    Attributes:
        sent: Their statements.
        gate: What each waits for before it is sent.
    """

    sent: list[str] = field(default_factory=list)
    gate: Callable[[], object] = lambda: time.sleep(SLOW)


@pytest.fixture
def settling(monkeypatch: pytest.MonkeyPatch) -> Settling:
    settling = Settling()

    def wrap(run: Run) -> Run:
        def running(cursor: object, query: bytes, *args: Any, **options: Any) -> None:
            if is_settling():
                settling.sent.append(query.decode())
                settling.gate()
            run(cursor, query, *args, **options)

        return running

    around_statements(monkeypatch, wrap)
    return settling


@pytest.fixture
def go_on() -> Iterator[threading.Event]:
    """What handlers wait for; it comes at the end of the test."""
    event = threading.Event()
    yield event
    event.set()


def close(store: PostgresStore, _: Runner) -> None:
    store.close()


ENDS: dict[str, Callable[[PostgresStore, Runner], object]] = {
    "stop at once": lambda _store, worker: worker.stop(0),
    "stop soon": lambda _store, worker: worker.stop(0.2),
    "close": close,
}


@pytest.mark.parametrize("end", ENDS.values(), ids=ENDS)
def test_whatever_ends_a_worker_none_of_its_jobs_stays_held(
    open_store: Callable[..., PostgresStore],
    settling: Settling,
    go_on: threading.Event,
    monkeypatch: pytest.MonkeyPatch,
    end: Callable[[PostgresStore, Runner], object],
) -> None:
    """Field case B88: one after the other they would take longer than anybody waits."""
    monkeypatch.setattr(started, "CLOSE_GRACE", 0.2)
    store, queue = open_store(), open_store().queue("emails")
    ids = queue.enqueue_many(range(HANDLERS))
    worker = store.start_worker("emails", lambda _job: go_on.wait(60), HANDLERS)
    wait_until(lambda: worker.health().details["running"] == HANDLERS, 30)
    end(store, worker)
    stats = queue.stats()
    assert (stats.running, stats.ready) == (0, HANDLERS)
    assert sorted((job.id, job.attempt) for job in queue.claim("next", HANDLERS)) == [
        (job, 1) for job in ids
    ]
    assert len(settling.sent) <= 2
    go_on.set()
    assert worker.join(30)


def test_at_exit_none_of_its_jobs_stays_held(run: Callable[[str], Program], queue: Queue) -> None:
    """Field cases B22 and B88."""
    queue.enqueue_many(range(HANDLERS))
    program = run(f"""
from alkstore_postgres.database.cursor import EngineCursor
from alkstore_postgres.database.own_connection import OwnCursor
def slowed(run):
    def running(*args, **options):
        if threading.current_thread().name.endswith(": settlement"):
            time.sleep({SLOW})
        run(*args, **options)
    return running
for kind in (EngineCursor, OwnCursor):
    kind.run = slowed(kind.run)
all_run = threading.Semaphore(0)
def handler(job):
    all_run.release()
    time.sleep(60)
store.start_worker("emails", handler, {HANDLERS})
for _ in range({HANDLERS}):
    all_run.acquire()
say("done")
sys.stdin.readline()
""")
    program.wait_for("done")
    assert queue.stats().running == HANDLERS
    program.go_on()
    assert program.end()[:2] == (0, "")
    stats = queue.stats()
    assert (stats.running, stats.ready) == (0, HANDLERS)


def test_a_stop_without_time_releases_what_runs_and_what_waits_together(
    queue: Queue, settling: Settling, go_on: threading.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pool, "_RECALL_AFTER", 3600.0)
    worker = WorkerRunner(queue, lambda _job: go_on.wait(60), 4)
    monkeypatch.setattr(worker, "_ahead", lambda: 16)
    queue.enqueue_many(range(20))
    worker.start()
    wait_until(lambda: queue.stats().running == 20)
    wait_until(lambda: worker.health().details["running"] == 4)
    assert settling.sent == []
    assert not worker.stop(0)
    assert len(settling.sent) == 1
    assert queue.stats().ready == 20
    go_on.set()
    assert worker.join(30)


def test_releases_that_came_while_the_last_statement_hung_are_written_after_all(
    queue: Queue, settling: Settling, start: Start, go_on: threading.Event
) -> None:
    hangs, ends = threading.Event(), threading.Event()

    def hang() -> None:
        hangs.set()
        assert ends.wait(60)

    def handler(job: JobHandle) -> None:
        if job.payload:
            go_on.wait(60)

    settling.gate = hang
    queue.enqueue_many(range(4))
    worker = start(queue, handler, 4)
    assert hangs.wait(10)
    wait_until(lambda: worker.health().details["running"] == 3)
    assert not worker.stop(0)
    assert queue.stats().running == 4
    ends.set()
    wait_until(lambda: queue.stats().ready == 3)
    assert queue.size() == 3, "what had ended is acknowledged"
    go_on.set()
    assert worker.join(30)


def test_releases_do_not_wait_for_a_long_row_of_retries(
    queue: Queue, settling: Settling, start: Start, go_on: threading.Event
) -> None:
    fails = threading.Event()

    def handler(job: JobHandle) -> None:
        if job.payload == "runs on":
            go_on.wait(60)
        elif job.payload == "fails":
            assert fails.wait(60)
            raise ValueError("no")

    def gate() -> None:
        if len(settling.sent) == 1:  # the acknowledgement
            fails.set()
            wait_until(lambda: worker.health().details["finished"] == HANDLERS - 1, 30)
        elif len(settling.sent) == 2:
            worker.ask_to_end(0)
            wait_until(lambda: worker._cut_short)

    settling.gate = gate
    queue.enqueue_many(["is done", "runs on", *["fails"] * (HANDLERS - 2)])
    worker = start(queue, handler, HANDLERS)
    wait_until(lambda: len(settling.sent) > 1, 30)
    wait_until(lambda: queue.stats().running == 0, 30)
    assert len(settling.sent) == HANDLERS
    (released,) = (number for number, text in enumerate(settling.sent) if "attempts =" in text)
    assert released < HANDLERS / 2
    go_on.set()
    assert worker.join(30)
