"""Ourselves: alkstore on PostgreSQL, through its public interface."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import alkstore_postgres
from alkstore.traits import Listener, Runner
from bench.contestants.base import Contestant, Enqueue, Handle, override

_QUEUE = "bench"


class Ours(Contestant):
    """Options: ``wakes`` (False: none are sent), ``loop`` (claim and ack by hand in one
    thread, ``batch`` jobs a claim, instead of a worker), ``concurrency``.
    """  # noqa: D205 - a list of options

    def __init__(self, url: str, options: dict[str, Any]) -> None:
        super().__init__(url, options)
        self._store: alkstore_postgres.PostgresStore | None = None
        self._runners: list[Runner] = []
        self._listeners: list[Listener] = []

    @property
    def store(self) -> alkstore_postgres.PostgresStore:
        """The store."""
        if self._store is None:
            self._store = alkstore_postgres.open(self.url, max_size=40)
            if not self.options.get("wakes", True):
                self.task_wakes(on=False)
        return self._store

    @override
    def setup(self) -> None:
        """Migrate."""
        alkstore_postgres.migrate(self.url)

    @override
    @contextmanager
    def client(self) -> Iterator[Enqueue]:
        """Enqueue; the clients of a process share a store, as an application's threads do."""
        queue = self.store.queue(_QUEUE)
        yield queue.enqueue

    @override
    def enqueue_many(self, numbers: Sequence[int]) -> None:
        """Enqueue all in one call."""
        self.store.queue(_QUEUE).enqueue_many(numbers)

    @override
    def work(self, handle: Handle, stop: threading.Event) -> None:
        """Run a worker, or claim and ack by hand."""
        if self.options.get("loop"):
            self._loop(handle, stop)
            return
        runner = self.store.start_worker(
            _QUEUE, lambda job: handle(job.payload), int(self.options.get("concurrency", 1))
        )
        stop.wait()
        runner.stop(5.0)

    def _loop(self, handle: Handle, stop: threading.Event) -> None:
        batch = int(self.options.get("batch", 1))
        queue = self.store.queue(_QUEUE)
        while not stop.is_set():
            jobs = queue.claim("bench", batch)
            for job in jobs:
                handle(job.payload)
            if batch == 1 and jobs:
                jobs[0].ack()
            elif jobs:
                queue.ack_many(jobs)
            else:
                time.sleep(0.001)

    @override
    def settled(self) -> None:
        """Wait until the queue is empty."""
        queue = self.store.queue(_QUEUE)
        while queue.size():
            time.sleep(0.001)

    # What only we have.

    def task_wakes(self, on: bool) -> None:  # noqa: FBT001 - an argument of the task
        """Have wakes sent as ever, or take them out: no option of the product, but they cost."""
        sender: Any = self.store._parts.sender  # noqa: SLF001
        if on:
            sender.__dict__.pop("begin", None)
            sender.__dict__.pop("merged", None)
        else:
            sender.begin = lambda _name, due: None  # noqa: ARG005 - as it is called
            sender.merged = lambda _name, _job_id=None: None

    def task_start(self, part: str) -> None:
        """Start an idle part: a scheduler, a worker, a relay or a listener."""
        store = self.store
        if part == "listener":
            listener = store.listen("something")
            self._listeners.append(listener)
            threading.Thread(target=_listen, args=(listener,), daemon=True).start()
        elif part == "scheduler":
            self._runners.append(store.start_scheduler())
        elif part == "worker":
            self._runners.append(store.start_worker(_QUEUE, lambda _job: None))
        else:
            self._runners.append(store.start_outbox("bench", lambda _job: None))

    def task_until(self, state: str, seconds: float) -> float:
        """Return when the first runner is in *state*, on the monotonic clock."""
        limit = time.monotonic() + seconds
        while time.monotonic() < limit:
            if self._runners[0].state == state:
                return time.monotonic()
            time.sleep(0.0005)
        msg = f"the runner is {self._runners[0].state}, not {state}"
        raise TimeoutError(msg)

    def task_stop(self) -> float:
        """Stop the first runner; return when that was asked for."""
        asked = time.monotonic()
        self._runners.pop(0).stop(5.0)
        return asked

    def task_hear(self, seconds: float) -> list[float]:
        """Return when wakes came within so many seconds, on the monotonic clock."""
        heard: list[float] = []
        with self.store.listen("heard") as listener:
            limit = time.monotonic() + seconds
            while (left := limit - time.monotonic()) > 0:
                if listener.wait(left) is not None:
                    heard.append(time.monotonic())
        return heard

    def task_notify(self, count: int, gap: float) -> list[float]:
        """Send *count* wakes; return when."""
        sent: list[float] = []
        for _ in range(count):
            time.sleep(gap)
            sent.append(time.monotonic())
            self.store.notify("heard")
        return sent

    @override
    def close(self) -> None:
        """Close the store."""
        for listener in self._listeners:
            listener.close()
        if self._store is not None:
            self._store.close()


def _listen(listener: Listener) -> None:
    for _wake in listener:
        pass


def make(url: str, options: dict[str, Any]) -> Contestant:
    """Return the contestant."""
    return Ours(url, options)
