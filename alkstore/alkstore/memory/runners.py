"""The runner threads that a store has started, and their end."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from alkstore.errors import LeadershipLost
from alkstore.memory.access import Access, Sleeper
from alkstore.memory.leader import Leading
from alkstore.memory.schedules import Schedules
from alkstore.names import SCHEDULER_LOCK
from alkstore.runners import OutboxRunner, SchedulerRunner, Supervisor, WorkerRunner
from alkstore.stop_token import StopToken
from alkstore.traits import Delivery, Handler, Queue

CLOSE_GRACE = 5.0
"""How long handlers may finish when their store is closed, in seconds."""


class Runners:
    """Starts runners over the parts of a store, and stops them all.

    Args:
        access: The store's way to its tables.
        leading: Its leader loops.
        schedules: Its schedules.
    """

    def __init__(self, access: Access, leading: Leading, schedules: Schedules) -> None:
        self._access = access
        self._leading = leading
        self._schedules = schedules
        self._lock = threading.Lock()
        self._all: list[Supervisor] = []
        self._scheduler: SchedulerRunner | None = None
        self._closed = False

    def scheduler(self) -> SchedulerRunner:
        """Start the scheduler, or return the one that runs already."""
        with self._lock:
            runner = self._scheduler
            if runner is None or runner.state == "stopped":
                turns = _Turns(self._access, self._leading)
                runner = SchedulerRunner(turns.lead, turns.stand_by, self._schedules.review)
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
        self._lock = threading.Lock()
        self._all = []
        self._scheduler = None

    def _start(self, runner: Supervisor) -> None:
        if self._closed:
            self._access.check_open()
        self._all = [one for one in self._all if one.state != "stopped"]
        self._all.append(runner)
        runner.start()


class _Turns:
    """Leads, and between two tries to lead waits for the release of the lease.

    It hears from before a try until after the sleep: a release that falls between the
    refusal and the sleep is remembered.
    """

    def __init__(self, access: Access, leading: Leading) -> None:
        self._access = access
        self._leading = leading
        self._sleeper: Sleeper | None = None

    def lead(self, stop: StopToken, on_good_turn: Callable[[], None]) -> None:
        """Lead until *stop* is cancelled."""
        if self._sleeper is None:
            self._sleeper = Sleeper(self._access, SCHEDULER_LOCK, stop).__enter__()
        try:
            self._leading.run(stop, on_good_turn)
        except LeadershipLost:
            raise
        except BaseException:
            self._deafen()
            raise
        self._deafen()

    def stand_by(self, seconds: float | None, stop: StopToken) -> None:
        """Wait until the lease is released, or may have lapsed."""
        if self._sleeper is not None:
            self._sleeper.sleep(seconds)
        if stop.cancelled:
            self._deafen()

    def _deafen(self) -> None:
        if self._sleeper is not None:
            self._sleeper.__exit__(None, None, None)
            self._sleeper = None
