"""The runner threads that a store has started, and their end."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from alkstore.errors import StoreClosed
from alkstore.runners.outbox import OutboxRunner
from alkstore.runners.scheduler import SchedulerRunner
from alkstore.runners.supervisor import Supervisor
from alkstore.runners.worker import WorkerRunner
from alkstore.traits import Delivery, Handler, Queue

CLOSE_GRACE = 5.0
"""How long handlers may finish when their store is closed, in seconds."""


class StartedRunners:
    """Starts the runners of a store, and stops them all.

    Args:
        make_scheduler: Makes the scheduler of this process, not started.
    """

    def __init__(self, make_scheduler: Callable[[], SchedulerRunner]) -> None:
        self._make_scheduler = make_scheduler
        # Entered again by a signal handler that closes the store while a runner is being started.
        self._lock = threading.RLock()
        self._all: list[Supervisor] = []
        self._scheduler: SchedulerRunner | None = None
        self._closed = False

    def scheduler(self) -> SchedulerRunner:
        """Start the scheduler of this process, or return the one that runs already.

        One that was asked to end goes on no more: the next one stands by until the lease is free.
        """
        with self._lock:
            runner = self._scheduler
            if runner is None or runner.ending:
                runner = self._make_scheduler()
                self._start(runner)
                self._scheduler = runner
            return runner

    def worker(self, queue: Queue, handler: Handler, concurrency: int) -> WorkerRunner:
        """Start a worker of *queue*."""
        runner = WorkerRunner(queue, handler, concurrency)
        with self._lock:
            self._start(runner)
        return runner

    def outbox(self, name: str, queue: Queue, delivery: Delivery, concurrency: int) -> OutboxRunner:
        """Start a relay of the outbox *name*, whose backing queue is *queue*."""
        runner = OutboxRunner(queue, delivery, name, concurrency)
        with self._lock:
            self._start(runner)
        return runner

    def stop(self) -> None:
        """Stop all runners: all are asked first, then waited for."""
        with self._lock:
            self._closed = True
            runners = list(self._all)
        for runner in runners:
            runner.ask_to_end(CLOSE_GRACE)
        deadline = time.monotonic() + CLOSE_GRACE + 1.0
        for runner in runners:
            # One that was stopped before has no grace left, and its handlers are let go.
            runner.wind_up(max(deadline - time.monotonic(), 0.0))

    def after_fork(self) -> None:
        """Leave the runners to the parent; the child may start its own."""
        self._lock = threading.RLock()
        self._all = []
        self._scheduler = None

    def _start(self, runner: Supervisor) -> None:
        # It is among them first: whoever closes the store in between either stops it, or is seen.
        self._all = [*(one for one in self._all if one.state != "stopped"), runner]
        if self._closed:
            self._all.remove(runner)
            msg = "the store is closed"
            raise StoreClosed(msg)
        runner.start()
        if runner.ending:
            runner.stop(0)  # what was started after it had been asked to end
