"""A claim that waits does not go by how quick the jobs were that came before."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest

from alkstore.memory import MemoryStore
from alkstore.memory.queue import MemoryQueue
from alkstore.runners import WorkerRunner, pool
from alkstore.stop_token import StopToken
from alkstore.traits import JobHandle
from tests.support.waiting import wait_until

QUICK = 2_000
SLOW = 20


@dataclass
class Wait:
    """A claim that waits or has waited.

    Attributes:
        came: What it has brought, once it is over.
    """

    timeout: float | None
    came: list[JobHandle] | None = None

    @property
    def lasts(self) -> bool:
        """Whether it goes on for as long as nothing comes."""
        return self.timeout is None and self.came is None


@dataclass
class Scene:
    """A worker whose jobs are quick, or wait for the end of the test.

    Attributes:
        other: A store of another process.
        waits: Its waiting claims.
        began: The slow jobs that began, here and in another worker.
    """

    store: MemoryStore
    other: MemoryStore
    waits: list[Wait] = field(default_factory=list)
    began: dict[str, list[int]] = field(default_factory=lambda: {"here": [], "there": []})
    go_on: threading.Event = field(default_factory=threading.Event)

    def work(self, where: str, job: JobHandle) -> None:
        if job.payload == "slow":
            self.began[where].append(job.id)
            self.go_on.wait(60)


@pytest.fixture
def scene(monkeypatch: pytest.MonkeyPatch) -> Iterator[Scene]:
    """Return a scene in which no claim is ever given back because no handler has begun with it."""
    monkeypatch.setattr(pool, "_RECALL_AFTER", 3600.0)
    claim_wait = MemoryQueue.claim_wait
    with MemoryStore() as store, store.sibling() as other:
        scene = Scene(store, other)

        def waiting(
            queue: MemoryQueue, worker: str, limit: int, *, timeout: float | None, stop: StopToken
        ) -> list[JobHandle]:
            wait = Wait(timeout)
            scene.waits.append(wait)
            wait.came = claim_wait(queue, worker, limit, timeout=timeout, stop=stop)
            return wait.came

        monkeypatch.setattr(MemoryQueue, "claim_wait", waiting)
        yield scene
        scene.go_on.set()


def test_after_a_stream_of_quick_jobs_slow_ones_are_for_every_worker(scene: Scene) -> None:
    queue = scene.store.queue("mail")
    worker = scene.store.start_worker("mail", lambda job: scene.work("here", job))
    queue.enqueue_many(["quick"] * QUICK)
    wait_until(lambda: worker.health().details["finished"] == QUICK, 30)
    wait_until(lambda: worker.health().details["in_hand"] == 0)
    wait_until(lambda: scene.waits[-1].lasts)
    there = scene.other.start_worker("mail", lambda job: scene.work("there", job))
    wait_until(lambda: there.state == "working")
    queue.enqueue_many(["slow"] * SLOW)
    wait_until(lambda: all(scene.began.values()))
    assert queue.stats().ready == SLOW - 2


def test_nor_are_they_kept_behind_the_last_of_the_stream_that_is_slow(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    queue = scene.store.queue("mail")
    monkeypatch.setattr("alkstore.runners.worker.WorkerRunner._ahead", lambda _: SLOW)
    worker = scene.store.start_worker("mail", lambda job: scene.work("here", job))
    queue.enqueue_many([*["quick"] * 50, "slow"])
    wait_until(lambda: scene.began["here"])
    wait_until(lambda: scene.waits[-1].lasts or scene.waits[-1].came == [])
    queue.enqueue_many(["slow"] * 5)
    scene.other.start_worker("mail", lambda job: scene.work("there", job), concurrency=5)
    wait_until(lambda: len(scene.began["there"]) == 5)
    assert worker.health().details["in_hand"] == 1


def test_what_ends_in_a_pause_says_nothing_of_what_comes_after_it(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    queue = scene.store.queue("mail")
    worker = WorkerRunner(queue, print)
    monkeypatch.setattr(worker, "_grow", lambda _more: None)
    worker._admit([])
    monkeypatch.setattr(worker._claims, "_finished", QUICK)  # the last of them, just now
    queue.enqueue("slow")
    worker._admit(queue.claim("w"))
    assert worker._pace.ahead(worker._claims.finished, time.monotonic() + 0.1) == 0
