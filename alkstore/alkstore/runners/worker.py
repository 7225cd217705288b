"""The worker: handlers of a queue's jobs."""

from __future__ import annotations

import logging
import time

from alkstore._typing import override
from alkstore.runners.attempt import Outcome, attempt
from alkstore.runners.heartbeats import Heartbeats
from alkstore.runners.pace import Pace
from alkstore.runners.pool import JobPool
from alkstore.runners.say import say
from alkstore.runners.work import check_work
from alkstore.traits import Handler, JobHandle, Queue

_logger = logging.getLogger(__name__)


class WorkerRunner(JobPool):
    """Calls *handler* with each job of *queue* and settles what becomes of it.

    A handler that returns acknowledges its job, unless it settled the job itself; one
    that raises costs an attempt, and the job comes back on the retry curve. That holds
    for `SystemExit`, `KeyboardInterrupt` and `GeneratorExit` too: in a thread they end
    nothing but the handler, so they are failed attempts, and the worker goes on.

    All claims in hand are extended before a third of their visibility timeout has passed,
    during a stop too. When a claim is lost all the same, `JobHandle.lost` becomes true and
    nothing is written for it.

    Args:
        queue: Where the jobs come from.
        handler: The application's code.
        concurrency: How many handlers at once, 1 to 1,000.
        worker_id: Who claims; ``None``: the host, the process and a random text.

    Raises:
        InvalidOption: *handler* cannot be called, or is a coroutine function or a generator
            function; or *concurrency* is out of range.
        InvalidName: *worker_id* breaks the naming rule.
    """

    def __init__(
        self,
        queue: Queue,
        handler: Handler,
        concurrency: int = 1,
        worker_id: str | None = None,
    ) -> None:
        check_work(handler, "handler")
        super().__init__(f"worker {queue.name}", queue, concurrency, worker_id)
        self._handler = handler
        self._heartbeats = Heartbeats(queue, self._claims, self._status)
        self._pace = Pace(time.monotonic())

    @override
    def _begin_beside(self) -> None:
        super()._begin_beside()
        self._spawn("heartbeats", self._beat)

    @override
    def _ahead(self) -> int:
        return self._pace.ahead(self._claims.finished, time.monotonic())

    @override
    def _measure_anew(self) -> None:
        self._pace.begin_anew(self._claims.finished, time.monotonic())

    @override
    def _attempt(self, handle: JobHandle) -> Outcome:
        return attempt(self._handler, handle)

    @override
    def _tell(self, handle: JobHandle, outcome: Outcome) -> None:
        if outcome.raised is not None:
            say(
                _logger,
                logging.WARNING,
                "job %d of queue %r failed (attempt %d of %d)",
                handle.id,
                handle.queue,
                handle.attempt,
                handle.max_attempts,
                error=outcome.raised,
            )

    def _beat(self) -> None:
        """Keep the claims until everything is over."""
        self._until_dismissed(self._heartbeats.turn)
