"""The outbox handle: a queue that only the outbox reaches, and the loop that delivers."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

from alkstore._typing import Unpack, override
from alkstore.arguments import Seconds
from alkstore.errors import DatabaseError, StoreClosed
from alkstore.names import check_name
from alkstore.options import EnqueueOptions
from alkstore.runners.deliver import deliver
from alkstore.runners.pause import pause
from alkstore.runners.say import say
from alkstore.runners.work import check_work
from alkstore.stop_token import StopToken, check_stop
from alkstore.traits import Delivery, JobHandle
from alkstore.values import DeadJob, Job, QueueStats
from alkstore_postgres.queue.queue import PostgresQueue

_logger = logging.getLogger(__name__)


class PostgresOutbox:
    """The `Outbox` of this engine.

    Args:
        name: The outbox's name, checked by whoever makes the handle.
        queue: The backing queue, a handle with the outbox's stamps.
    """

    __slots__ = ("_name", "_queue")

    def __init__(self, name: str, queue: PostgresQueue) -> None:
        self._name = name
        self._queue = queue

    @property
    def name(self) -> str:
        """The outbox's name."""
        return self._name

    def enqueue(self, payload: Any, **options: Unpack[EnqueueOptions]) -> int:
        """Store a message and return its id; see `Outbox.enqueue`."""
        return self._queue.enqueue(payload, **options)

    def run_once(self, worker_id: str, delivery: Delivery) -> bool:
        """Deliver one message, if one is due; see `Outbox.run_once`.

        Raises:
            InvalidName: *worker_id* breaks the naming rule.
            InvalidOption: *delivery* cannot be called, or is a coroutine function or a generator
                function.
            DatabaseError: No message could be claimed, or what became of one could not be
                written for 10 s; it is delivered again when its claim lapses.
        """
        worker_id = _checked(worker_id, delivery)
        handles = self._queue.claim(worker_id)
        for handle in handles:
            deliver(delivery, handle)
        return bool(handles)

    def run(self, worker_id: str, delivery: Delivery, stop: StopToken) -> None:
        """Deliver messages one after the other until *stop* is cancelled.

        A database that is away does not end it: it goes on with a capped backoff. The
        message in hand is finished before it returns.

        Raises:
            InvalidName: *worker_id* breaks the naming rule.
            InvalidOption: *delivery* cannot be called, or is a coroutine function or a generator
                function; or *stop* is no stop token.
            StoreClosed: The store was closed.
            SchemaError: The schema does not fit.
            DatabaseError: The database failed in a way that no retry mends.
        """
        worker_id = _checked(worker_id, delivery)
        check_stop(stop)
        self._queue.check_open()
        failures = 0
        while not stop.cancelled:
            try:
                # After a failure it does not wait: the first claim tells whether all is well.
                handles = self._claim(worker_id, 0.0 if failures else None, stop)
                failures = 0
                for handle in handles:
                    deliver(delivery, handle, stop)
            except DatabaseError as error:
                if not error.retryable:
                    raise
                failures += 1
                if failures == 1:
                    say(
                        _logger,
                        logging.WARNING,
                        "outbox %r: the database is away: %s",
                        self._name,
                        error,
                    )
                stop.wait(pause(failures))

    def _claim(self, worker_id: str, timeout: float | None, stop: StopToken) -> list[JobHandle]:
        try:
            return self._queue.claim_wait(worker_id, timeout=timeout, stop=stop)
        except StoreClosed:
            if not stop.cancelled:
                raise
            return []  # stopped, and closed right after: an orderly end

    def dead(self, limit: int = 100, after: DeadJob | None = None) -> list[DeadJob]:
        """Return undeliverable messages, the latest first; see `Queue.dead`."""
        return self._queue.dead(limit, after)

    def requeue(self, ids: Sequence[int]) -> int:
        """Make dead letters live again; see `Queue.requeue`."""
        return self._queue.requeue(ids)

    def purge(self, ids: Sequence[int] | None = None, *, older_than: Seconds | None = None) -> int:
        """Delete dead letters for good; see `Queue.purge`."""
        return self._queue.purge(ids, older_than=older_than)

    def peek(self, limit: int = 100) -> list[Job]:
        """Return undelivered messages without touching them; see `Queue.peek`."""
        return self._queue.peek(limit)

    def stats(self) -> QueueStats:
        """Return how the outbox stands."""
        return self._queue.stats()

    @override
    def __repr__(self) -> str:
        """Show which outbox this is."""
        return f"<{type(self).__name__} {self._name!r}>"


def _checked(worker_id: object, delivery: object) -> str:
    worker = check_name(worker_id, "worker")
    check_work(delivery, "delivery")
    return worker
