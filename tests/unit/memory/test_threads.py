"""One memory store serves every thread."""

from __future__ import annotations

import re
import subprocess
import sys
import threading
from collections import Counter

import pytest

from alkstore import JobHandle
from alkstore.memory import ManualClock, MemoryStore
from alkstore.memory.schedules import Schedules
from tests.support.waiting import wait_until


def test_no_job_is_claimed_twice_and_none_is_lost(store: MemoryStore) -> None:
    done: list[int] = []
    released: set[int] = set()
    barrier = threading.Barrier(8)

    def work(number: int) -> None:
        queue = store.queue("q")
        barrier.wait()
        queue.enqueue_many(range(50))
        while handles := queue.claim(f"w{number}", 3):
            for handle in handles:
                if handle.id % 7 == 0 and handle.id not in released:
                    released.add(handle.id)
                    assert handle.release()
                elif handle.id % 5 == 0 and handle.attempt == 1:
                    assert handle.retry("again", 0)
                elif handle.ack():
                    done.append(handle.id)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for handle in store.queue("q").claim("last", 1000):
        done.append(handle.id)
        handle.ack()
    assert max(Counter(done).values()) == 1
    assert len(done) == 400
    assert store.queue("q").size() == 0


class NotedLock:
    """The lock of a store's tables, which counts who comes for it."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self.comers = 0

    def __enter__(self) -> None:
        self.comers += 1
        self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        self._lock.release()


def test_a_commit_waits_for_whoever_has_the_tables(
    store: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    lock = NotedLock()
    monkeypatch.setattr(store.data, "lock", lock)
    written, go_on = threading.Event(), threading.Event()

    def write() -> None:
        with store.transaction() as tx:
            store.enqueue_tx(tx, "q", 1)
            written.set()
            go_on.wait(60)

    writer = threading.Thread(target=write, daemon=True)
    writer.start()
    assert written.wait(60)
    with lock:
        comers = lock.comers
        go_on.set()
        wait_until(lambda: lock.comers > comers or not writer.is_alive())
        assert writer.is_alive()
        assert store.data.jobs == {}
    writer.join(60)
    assert store.queue("q").size() == 1


def test_a_boundary_fires_once_whoever_ticks(store: MemoryStore, clock: ManualClock) -> None:
    store.schedule("s", "@every 1s", "q", 1)
    fired: list[int] = []
    barrier = threading.Barrier(4)

    def tick() -> None:
        for _ in range(20):
            barrier.wait()
            fired.append(store.tick())
            if barrier.wait() == 0:
                clock.advance(1)

    threads = [threading.Thread(target=tick) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    fired.append(store.tick())
    assert sum(fired) == 20
    boundaries = [handle.scheduled_for for handle in store.queue("q").claim("w", 100)]
    assert len(set(boundaries)) == 20


def test_runners_work_deliver_and_fire(store: MemoryStore, clock: ManualClock) -> None:
    worked: list[object] = []
    delivered: list[object] = []

    def handler(handle: JobHandle) -> None:
        if handle.payload == "bad":
            raise ValueError("no good")
        worked.append(handle.payload)

    worker = store.start_worker("q", handler, concurrency=2, max_attempts=1)
    relay = store.start_outbox("o", lambda handle: delivered.append(handle.payload))
    scheduler = store.start_scheduler()
    assert store.start_scheduler() is scheduler
    store.schedule("s", "@every 10s", "q", "fired")
    store.queue("q").enqueue("enqueued")
    store.queue("q").enqueue("bad", max_attempts=1)
    store.outbox("o").enqueue("message")
    wait_until(lambda: scheduler.state == "leading" and worked == ["enqueued"])
    clock.advance(10)
    wait_until(lambda: worked == ["enqueued", "fired"] and delivered == ["message"])
    wait_until(lambda: [dead.error for dead in store.queue("q").dead()] == ["no good"])
    assert all(one.health().healthy for one in (worker, relay, scheduler))
    store.close()
    assert {one.state for one in (worker, relay, scheduler)} == {"stopped"}


def test_a_scheduler_tells_of_schedules_that_are_late_or_damaged(
    store: MemoryStore, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    scheduler = store.start_scheduler()
    wait_until(lambda: scheduler.state == "leading")
    monkeypatch.setattr(Schedules, "tick", lambda *_: None)
    store.schedule("damaged", "@every 10s", "q", 1)
    store.schedule("late", "@every 10s", "q", 1)
    store.data.schedules["damaged"].spec = "@hourly"
    clock.advance(120)
    health = scheduler.health()
    assert health.reason == "1 schedules should have fired long ago"
    assert health.details["late"] == ["late"]
    assert list(health.details["quarantined"]) == ["damaged"]


def test_an_open_transaction_does_not_hold_up_the_health_of_a_leader(store: MemoryStore) -> None:
    scheduler = store.start_scheduler()
    wait_until(lambda: scheduler.state == "leading")
    with store.data.lock:
        health = scheduler.health()
    told = health.details["unanswered"]
    assert re.fullmatch(r"the database has not answered for [1-9]\d* s", told)
    wait_until(lambda: "unanswered" not in scheduler.health().details)


AT_EXIT = """
import threading
from alkstore.memory import MemoryStore

store = MemoryStore()
store.start_scheduler()
store.start_worker("q", lambda handle: None)
store.start_outbox("o", lambda handle: None)
store.lock("l", 5, keep_alive=True)
for call in (
    lambda: store.queue("p").claim_wait("w"),
    lambda: store.listen("c").wait(),
):
    threading.Thread(target=call, daemon=True).start()
store.queue("q").enqueue(1)
"""


def test_an_interpreter_that_never_closed_its_store_ends_quietly() -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", AT_EXIT],
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
