"""The runner threads that a store has started, and their end."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from alkstore.errors import LeadershipLost, StoreClosed
from alkstore.names import SCHEDULER_LOCK
from alkstore.runners import OutboxRunner, SchedulerRunner, Supervisor, WorkerRunner
from alkstore.stop_token import Parker, StopToken
from alkstore.traits import Delivery, Handler, Queue
from alkstore_postgres.parts import Parts

CLOSE_GRACE = 5.0
"""How long handlers may finish when their store is closed, in seconds."""


class Runners:
    """Starts runners over the parts of a store, and stops them all.

    Args:
        parts: The store's parts.
    """

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._lock = threading.Lock()
        self._all: list[Supervisor] = []
        self._scheduler: SchedulerRunner | None = None
        self._closed = False

    def scheduler(self) -> SchedulerRunner:
        """Start the scheduler of this process, or return the one that runs already."""
        with self._lock:
            running = self._scheduler
            if running is not None and running.state != "stopped":
                return running
            turns = _Turns(self._parts)
            runner = SchedulerRunner(turns.lead, turns.stand_by, self._parts.registry.review)
            self._scheduler = runner
            self._start(runner)
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
        self._lock = threading.Lock()
        self._all = []
        self._scheduler = None

    def _start(self, runner: Supervisor) -> None:
        if self._closed:
            msg = "the store is closed"
            raise StoreClosed(msg)
        self._all = [one for one in self._all if one.state != "stopped"]
        self._all.append(runner)
        runner.start()


class _Turns:
    """Leads, and between two tries to lead listens for the release of the lease.

    It listens from before a try until after the sleep: a release that falls between the
    refusal and the sleep is remembered.

    Args:
        parts: The store's parts.
    """

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._parker = Parker()
        self._hears = False

    def lead(self, stop: StopToken, on_good_turn: Callable[[], None]) -> None:
        """Lead until *stop* is cancelled."""
        self._hear()
        try:
            self._parts.lead(stop, on_good_turn)
        except LeadershipLost:
            raise
        except BaseException:
            self._deafen()
            raise
        self._deafen()

    def stand_by(self, seconds: float | None, stop: StopToken) -> None:
        """Wait until the lease is released, or may have lapsed."""
        stop.attach(self._parker)
        try:
            self._parker.park(seconds)
        finally:
            stop.detach(self._parker)
            if stop.cancelled:
                self._deafen()

    def _hear(self) -> None:
        if not self._hears:
            self._parts.hub.attach(SCHEDULER_LOCK, self._wake)
            self._hears = True

    def _deafen(self) -> None:
        if self._hears:
            self._parts.hub.detach(SCHEDULER_LOCK, self._wake)
            self._hears = False

    def _wake(self, _name: str) -> None:
        self._parker.unpark()
