"""The store: where an application gets its mechanisms from."""

from __future__ import annotations

from contextlib import AbstractContextManager
from types import TracebackType
from typing import Any, Protocol

from alkstore._typing import Self, Unpack
from alkstore.arguments import Seconds
from alkstore.options import EnqueueOptions, QueueOptions
from alkstore.stop_token import StopToken
from alkstore.traits.delivery import Delivery, Handler
from alkstore.traits.lock import LockHandle
from alkstore.traits.outbox import Outbox
from alkstore.traits.queue import Queue
from alkstore.traits.runner import Runner
from alkstore.traits.scheduler import Scheduler
from alkstore.traits.wakes import Listener
from alkstore.values import Job


class Store(Scheduler, Protocol):
    """One object for every thread of a process.

    Every entry point that takes a name applies the naming rule, and every one that takes
    options or a payload refuses what is wrong with it, before any round trip.
    """

    def queue(self, name: str, **options: Unpack[QueueOptions]) -> Queue:
        """Return a handle of the queue *name*; no round trip.

        Args:
            name: The queue's name.
            **options: ``visibility_timeout``, ``max_attempts``, ``base_backoff``:
                stamped on the jobs that are enqueued through this handle.

        Raises:
            InvalidName: *name* breaks the naming rule (`ReservedName` when reserved).
            InvalidOption: An option is unknown or impossible.
        """
        ...

    def outbox(self, name: str) -> Outbox:
        """Return a handle of the outbox *name*; no round trip."""
        ...

    def get_job(self, job_id: int) -> Job | None:
        """Return a live job whole, or ``None``."""
        ...

    def try_lock(
        self, name: str, ttl: Seconds, owner: str | None = None, *, keep_alive: bool = False
    ) -> LockHandle | None:
        """Take a lock if it is free, without waiting.

        Args:
            name: The lock's name.
            ttl: How long it holds without a renewal: seconds or `timedelta`.
            owner: Who takes it; ``None``: a random one, unique per handle.
            keep_alive: Renew it from a thread until it is released or lost.

        Returns:
            The handle, or ``None`` when another holds it.
        """
        ...

    def lock(
        self,
        name: str,
        ttl: Seconds,
        timeout: Seconds | None = None,
        stop: StopToken | None = None,
        owner: str | None = None,
        *,
        keep_alive: bool = False,
    ) -> LockHandle:
        """Take a lock, waiting until it is free, woken by its release.

        Args:
            name: As `try_lock`.
            ttl: As `try_lock`.
            timeout: Seconds or `timedelta` to wait at most; ``None``: no limit.
            stop: Ends the wait.
            owner: As `try_lock`.
            keep_alive: As `try_lock`.

        Raises:
            LockTimeout: The time was up, or *stop* was cancelled.
        """
        ...

    def transaction(self) -> AbstractContextManager[Any]:
        """Lend a connection inside a transaction, for the ``*_tx`` calls.

        Leaving the block commits, an exception rolls back.
        """
        ...

    def enqueue_tx(
        self, tx: Any, queue: str, payload: Any, **options: Unpack[EnqueueOptions]
    ) -> int:
        """Enqueue inside the caller's transaction; return the job's id.

        The job and its wake are committed, or rolled back, with *tx*. Nothing is opened,
        committed or closed and no session state changes.

        Raises:
            NoTransaction: *tx* is in autocommit mode outside a transaction.
            InvalidConnection: *tx* is no connection that the engine can join.
        """
        ...

    def outbox_enqueue_tx(
        self, tx: Any, outbox: str, payload: Any, **options: Unpack[EnqueueOptions]
    ) -> int:
        """Store an outbox message inside the caller's transaction, as `enqueue_tx`."""
        ...

    def notify_tx(self, tx: Any, channel: str) -> None:
        """Send a wake that is heard when, and only when, *tx* commits."""
        ...

    def notify(self, channel: str) -> None:
        """Send a wake now."""
        ...

    def listen(self, *channels: str) -> Listener:
        """Return a listener of *channels* (at least one)."""
        ...

    def start_scheduler(self) -> Runner:
        """Start the scheduler thread, or return the one that runs already.

        Each process may have one: exactly one of them leads and fires, the others stand
        by and take over.
        """
        ...

    def start_worker(
        self, queue: str, handler: Handler, concurrency: int = 1, **options: Unpack[QueueOptions]
    ) -> Runner:
        """Start threads that work on *queue* with *handler*.

        Args:
            queue: The queue's name.
            handler: Called with each claimed job, in one of *concurrency* threads.
            concurrency: How many jobs at once, 1 to 1,000.
            **options: As `queue`.
        """
        ...

    def start_outbox(self, name: str, delivery: Delivery, concurrency: int = 1) -> Runner:
        """Start threads that deliver the messages of the outbox *name*."""
        ...

    def close(self) -> None:
        """Stop the runners, quietly, and close what the store opened. May be repeated."""
        ...

    def __enter__(self) -> Self:
        """Return the store."""
        ...

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Close it."""
        ...
