"""Wakes of auto-commit enqueues are merged in time, and an idle worker is woken at once."""

from __future__ import annotations

import logging
import os
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pytest

from alkstore import DatabaseError
from alkstore_postgres.store import PostgresStore
from alkstore_postgres.wakes.merging import BURST, SPARSE, WINDOW, Merging
from alkstore_postgres.wakes.sender import WakeSender
from tests.support.timing import Stopwatch, in_time
from tests.support.waiting import wait_until

OpenStore = Callable[..., PostgresStore]


@pytest.fixture
def sender(store: PostgresStore) -> Iterator[WakeSender]:
    sender = WakeSender(store._parts.database, store._parts.database.schema)
    yield sender
    sender.close()


class Tap:
    """Counts the notifications that a server really sends."""

    def __init__(self, connection: psycopg.Connection[Any], channel: str) -> None:
        self._connection = connection
        connection.execute(f"LISTEN {channel}")

    def heard(self, seconds: float) -> Counter[str]:
        return Counter(
            notification.payload for notification in self._connection.notifies(timeout=seconds)
        )

    def until(self, name: str) -> Counter[str]:
        """Return what is heard until there is one for *name*, however long that takes."""
        heard: Counter[str] = Counter()
        while not heard[name]:
            # All that came together: the driver forgets what is left of it.
            come = list(self._connection.notifies(timeout=30, stop_after=1))
            assert come, f"{name} was not heard"
            heard.update(notification.payload for notification in come)
        return heard


@pytest.fixture
def tap(connection: psycopg.Connection[Any], sender: WakeSender) -> Tap:
    return Tap(connection, sender.channel)


def enqueue(sender: WakeSender, name: str, times: int = 1) -> None:
    """Do what an enqueue does with its wake."""
    for _ in range(times):
        if sender.inline(name):
            sender.send_now(name)
        else:
            sender.merged(name)


def test_a_lone_enqueue_carries_its_wake_itself(sender: WakeSender) -> None:
    assert sender.inline("x")
    assert sender.inline("y")
    assert sender._thread is None


def test_a_stream_of_enqueues_sends_a_few_wakes_a_second(sender: WakeSender, tap: Tap) -> None:
    began = last = time.monotonic()
    count = pauses = 0
    while last - began < 2 or count <= 1_000:
        enqueue(sender, "x")
        before, last = last, time.monotonic()
        pauses += last - before >= SPARSE / 2  # of the machine's: the next one comes alone
        count += 1
    heard = tap.heard(0.5)["x"]
    assert 2 <= heard <= BURST + 2 * (last - began + 0.5) / WINDOW + pauses


def test_a_wake_that_is_held_back_is_sent_within_the_window(sender: WakeSender, tap: Tap) -> None:
    for _ in range(50):
        enqueue(sender, "x")
    tap.heard(0.001)
    while sender.inline("x"):
        pass

    def hear_it() -> float:
        tap.heard(0.001)
        began = time.monotonic()
        sender.merged("x")
        tap.until("x")
        return time.monotonic() - began

    in_time(hear_it, WINDOW + 0.2)


def pending(store: PostgresStore, number: int) -> list[int]:
    """Store jobs of which nobody is told."""
    with store.transaction() as connection:
        return [store.enqueue_tx(connection, "other", one) for one in range(number)]


def test_a_job_that_waits_is_told_of_at_once_when_somebody_took_the_one_before(
    store: PostgresStore, sender: WakeSender, connection: psycopg.Connection[Any], tap: Tap
) -> None:
    jobs = pending(store, 40)
    tap.heard(0.1)
    while sender.inline("x"):
        pass
    with Stopwatch() as watch:
        for job in jobs:
            sender.merged("x", job)
            assert next(connection.notifies(timeout=30, stop_after=1)).payload == "x"
            assert store.queue("other").cancel(job)
    assert watch.seconds < len(jobs) * WINDOW / 2


def test_jobs_behind_one_that_nobody_takes_cost_a_few_wakes_a_second(
    store: PostgresStore, sender: WakeSender, tap: Tap
) -> None:
    first, second = pending(store, 2)
    tap.heard(0.1)
    while sender.inline("x"):
        pass
    sender.carried("x", first)
    began = time.monotonic()
    while time.monotonic() - began < 2:
        sender.merged("x", second)
        time.sleep(0.001)
    heard = tap.heard(0.1)["x"]
    assert 2 <= heard <= (time.monotonic() - began + 0.4) / WINDOW


def test_jobs_that_somebody_took_meanwhile_are_not_told_of(sender: WakeSender, tap: Tap) -> None:
    sender.merged("x", 10**9)
    wait_until(lambda: not sender._owed)
    assert not tap.heard(0.3)


def test_a_job_that_is_held_was_taken(store: PostgresStore, sender: WakeSender, tap: Tap) -> None:
    first, second = pending(store, 2)
    tap.heard(0.1)
    (handle,) = store.queue("other").claim("w")
    assert handle.id == first
    sender.merged("x", first)
    wait_until(lambda: not sender._owed)
    assert not tap.heard(0.3)
    sender.carried("x", first)
    sender.merged("x", second)
    assert (tap.until("x") + tap.heard(0.3))["x"] == 1


def test_in_a_stream_an_enqueue_carries_its_wake_when_the_job_last_told_of_is_done(
    store: PostgresStore, tap: Tap, monkeypatch: pytest.MonkeyPatch
) -> None:
    sender = store._parts.sender
    monkeypatch.setattr("alkstore_postgres.wakes.merging.ASKING", 0.0)
    monkeypatch.setattr("alkstore_postgres.wakes.merging.SLOW_FACTOR", 0.0)
    left: list[int | None] = []
    queue = store.queue("mail")
    monkeypatch.setattr(sender, "merged", lambda _name, job_id=None: left.append(job_id))
    queue.enqueue("told of")
    assert tap.until("mail") == {"mail": 1}
    monkeypatch.setattr(Merging, "spend", lambda _merging, _now: False)
    waiting = queue.enqueue("while that waits")
    told = queue.claim("w")
    held = queue.enqueue("while somebody has it")
    assert queue.ack_many(told) == 1
    queue.enqueue("for nobody yet", delay=60)
    assert left == [waiting, held, None]
    assert not tap.heard(0.3)
    queue.enqueue("when it is done")
    assert tap.until("mail") == {"mail": 1}
    last = queue.enqueue("while the next one waits")
    assert left[3:] == [last]
    assert not tap.heard(0.3)
    assert queue.size() == 5


def test_every_job_of_a_fast_stream_is_done_without_any_poll(
    open_store: OpenStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("alkstore_postgres.queue.claimer._POLL", 600.0)
    done: list[int] = []
    worker, producer = open_store(), open_store()
    runner = worker.start_worker("mail", lambda job: done.append(job.payload))
    wait_until(lambda: worker._parts.hub.state == "listening")
    queue = producer.queue("mail")
    for number in range(600):
        queue.enqueue(number)
        if number % 7 == 0:
            time.sleep(0.007)
        if number % 100 == 0:
            wait_until(lambda: len(done) > number - 1)  # noqa: B023 - called here only
    wait_until(lambda: len(done) == 600)
    assert runner.stop(5)


def test_one_name_does_not_use_up_the_allowance_of_another(sender: WakeSender) -> None:
    while sender.inline("busy"):
        pass
    assert sender.inline("quiet")


def test_many_names_are_not_remembered_for_ever(sender: WakeSender) -> None:
    for number in range(20_000):
        sender.inline(f"x{number}")
        if number % 4_000 == 0:
            time.sleep(BURST * WINDOW)
    assert len(sender._books) < 10_000


def test_many_threads_lose_no_last_wake(sender: WakeSender, tap: Tap) -> None:
    threads = [threading.Thread(target=enqueue, args=(sender, "x", 50)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    sender.merged("last")
    heard = tap.until("last") + tap.heard(WINDOW + 0.5)
    assert heard["last"] == 1
    assert heard["x"] >= 1


def test_a_failure_is_told_once_and_never_raised(
    sender: WakeSender, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    attempts = []

    def fail(*_: object) -> list[Any]:
        attempts.append(1)
        raise DatabaseError("away", retryable=True)

    monkeypatch.setattr(sender._database, "fetch_all", fail)
    for _ in range(3):
        before = len(attempts)
        sender.merged("x")
        wait_until(lambda before=before: len(attempts) > before)  # type: ignore[misc]
    assert [record.levelno for record in caplog.records] == [logging.WARNING]


def test_closing_sends_what_is_pending(sender: WakeSender, tap: Tap) -> None:
    while sender.inline("x"):
        pass
    sender.merged("x")
    with Stopwatch() as watch:
        sender.close()
    assert watch.seconds < 1
    assert (tap.until("x") + tap.heard(0.2))["x"] == 1


def test_the_thread_ends_when_it_has_nothing_to_do_and_starts_again(
    sender: WakeSender, tap: Tap, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("alkstore_postgres.wakes.sender._IDLE_LIMIT", 0.3)
    for _ in range(2):
        sender.merged("x")
        assert (tap.until("x") + tap.heard(0.3))["x"] == 1
        wait_until(lambda: sender._thread is None, 3)


def test_an_enqueue_in_a_signal_handler_meets_no_held_lock(sender: WakeSender) -> None:
    with sender._lock:  # where the handler interrupts
        assert sender.inline("x")
        sender.merged("x")


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_child_of_a_fork_does_not_wait_for_the_parents_thread(sender: WakeSender) -> None:
    sender.merged("x")
    with sender._lock:
        pid = os.fork()
        if pid == 0:
            alone = sender._thread is not None
            sender.inline("x")
            sender.inline("another")
            os._exit(0 if alone and sender._thread is None else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
        pid = os.fork()
        if pid == 0:
            parents = sender._thread
            sender.begin("x", due=True)  # as its parent has it in its books
            sender.merged("x", 7)
            os._exit(0 if sender._thread not in {None, parents} else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


def test_a_waiter_of_the_same_process_is_woken_without_a_round_trip(
    store: PostgresStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    hub, heard = store._parts.hub, threading.Event()
    hub.attach("x", lambda _name: heard.set())
    assert hub.settle(5)
    heard.clear()
    local = WakeSender(store._parts.database, store._parts.database.schema, hub)
    monkeypatch.setattr(local._database, "fetch_all", lambda *_: [])
    local.merged("x")
    assert heard.is_set()
    local.close()
