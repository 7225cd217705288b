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
    options or a payload refuses what is wrong with it, before any round trip. Every one raises
    `StoreClosed` once the store was closed, calls that have nothing to do (an empty list)
    among them, but a mistake in the call is told first. Those that go to the database raise
    `DatabaseError` when it, or the way to it, failed.
    """

    def queue(self, name: str, **options: Unpack[QueueOptions]) -> Queue:
        """Return a handle of the queue *name*; no round trip.

        Args:
            name: The queue's name.
            **options: ``visibility_timeout`` (seconds or `timedelta`; 300 s),
                ``max_attempts`` (3), ``base_backoff`` (seconds or `timedelta`; 60 s): stamped
                on the jobs that are enqueued through this handle. Whoever claims one of them
                obeys its row, whatever the claiming handle says.

        Returns:
            A handle that holds nothing but its options.

        Raises:
            InvalidName: *name* breaks the naming rule (`ReservedName` when reserved).
            InvalidOption: An option is unknown or impossible.
        """
        ...

    def outbox(self, name: str) -> Outbox:
        """Return a handle of the outbox *name*; no round trip.

        Args:
            name: The outbox's name.

        Returns:
            A handle over a queue of its own, whose stamps are fixed.

        Raises:
            InvalidName: *name* breaks the naming rule (`ReservedName` when reserved).
        """
        ...

    def get_job(self, job_id: int) -> Job | None:
        """Return a live job whole.

        Args:
            job_id: What `enqueue` returned.

        Returns:
            The job, pending or held; ``None`` when it is finished, a dead letter, or was
            never there.

        Raises:
            InvalidOption: *job_id* is no int.
        """
        ...

    def try_lock(
        self, name: str, ttl: Seconds, owner: str | None = None, *, keep_alive: bool = False
    ) -> LockHandle | None:
        """Take a lock if it is free, without waiting.

        Args:
            name: The lock's name.
            ttl: How long it holds without a renewal, on the store clock: seconds or
                `timedelta`, a millisecond at least.
            owner: Who takes it, any text that a name may be; ``None``: a random one, unique
                per handle.
            keep_alive: Renew it from a thread until it is released or lost.

        Returns:
            The handle, or ``None`` when another holds it.

        Raises:
            InvalidName: *name* breaks the naming rule (`ReservedName` when reserved).
            InvalidOption: *ttl*, *owner* or *keep_alive* is impossible.
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

        Returns:
            The handle.

        Raises:
            InvalidName: *name* breaks the naming rule (`ReservedName` when reserved).
            InvalidOption: *ttl*, *timeout*, *stop*, *owner* or *keep_alive* is impossible.
            LockTimeout: The time was up, or *stop* was cancelled.
        """
        ...

    def transaction(self) -> AbstractContextManager[Any]:
        """Lend a connection inside a transaction, for the ``*_tx`` calls.

        Returns:
            A block that gives the engine's kind of connection. Leaving it commits; an
            exception rolls back and propagates as it is. It is entered once: each block takes
            a call of its own, else `NoTransaction`.

        Raises:
            DatabaseError: No connection could be had in time, or the commit failed.
        """
        ...

    def enqueue_tx(
        self, tx: Any, queue: str, payload: Any, **options: Unpack[EnqueueOptions]
    ) -> int:
        """Enqueue inside the caller's transaction.

        The job and its wake are committed, or rolled back, with *tx*. Nothing is opened,
        committed or closed and no session state changes.

        Args:
            tx: The caller's connection; which kinds there are depends on the engine.
            queue: The queue's name. The job gets the stamps of a handle without options.
            payload: As `Queue.enqueue`.
            **options: As `Queue.enqueue`.

        Returns:
            The job's id.

        Raises:
            NoTransaction: *tx* is in autocommit mode outside a transaction.
            InvalidConnection: *tx* is no connection that the engine can join.
            InvalidName: *queue* breaks the naming rule (`ReservedName` when reserved).
            InvalidOption: An option is unknown or impossible.
            EncodeError: The payload has no encoding.
            PayloadTooLarge: It is larger than the store allows.
            DatabaseError: The statement failed; the transaction is the caller's to roll back.
        """
        ...

    def outbox_enqueue_tx(
        self, tx: Any, outbox: str, payload: Any, **options: Unpack[EnqueueOptions]
    ) -> int:
        """Store an outbox message inside the caller's transaction.

        Args:
            tx: As `enqueue_tx`.
            outbox: The outbox's name.
            payload: As `Outbox.enqueue`.
            **options: As `Outbox.enqueue`.

        Returns:
            The message's id.

        Raises:
            InvalidName: *outbox* breaks the naming rule (`ReservedName` when reserved).
            AlkstoreError: Everything else as `enqueue_tx`.
        """
        ...

    def notify_tx(self, tx: Any, channel: str) -> None:
        """Send a wake that is heard when, and only when, *tx* commits.

        Args:
            tx: As `enqueue_tx`.
            channel: The name of a mechanism, or of a channel of the application's own.

        Raises:
            InvalidName: *channel* breaks the naming rule (`ReservedName` when reserved).
            NoTransaction: As `enqueue_tx`.
            InvalidConnection: As `enqueue_tx`.
            DatabaseError: As `enqueue_tx`.
        """
        ...

    def notify(self, channel: str) -> None:
        """Send a wake now.

        Args:
            channel: As `notify_tx`.

        Raises:
            InvalidName: *channel* breaks the naming rule (`ReservedName` when reserved).
            DatabaseError: It could not be sent.
        """
        ...

    def listen(self, *channels: str) -> Listener:
        """Return a listener that hears what is sent from now on.

        Args:
            *channels: The names to listen on, at least one: a queue's name for its
                enqueues, retries, releases and fires, a lock's for its releases, any other
                for what `notify` sends.

        Returns:
            The listener; close it when it is no longer needed.

        Raises:
            InvalidName: One breaks the naming rule (`ReservedName` when reserved).
            InvalidOption: None is given.
        """
        ...

    def start_scheduler(self) -> Runner:
        """Start the scheduler thread, or return the one that runs already.

        Each process may have one: exactly one of them leads and fires, the others stand
        by and take over: within the lease's 10 s plus 1 s after a leader was killed, at once
        after it was stopped.

        Returns:
            The runner; its state is ``leading`` or ``standby`` once it is under way.
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
            **options: As `queue`, for the handle that the worker claims through. They change
                nothing for what is claimed: visibility timeout, attempts and backoff are
                stamped on each row by whoever enqueued it.

        Returns:
            The runner, started.

        Raises:
            InvalidName: *queue* breaks the naming rule (`ReservedName` when reserved).
            InvalidOption: *handler* cannot be called or is a coroutine function or a generator
                function (see `Handler`), *concurrency* is out of range, or an option is unknown
                or impossible.
        """
        ...

    def start_outbox(self, name: str, delivery: Delivery, concurrency: int = 1) -> Runner:
        """Start threads that deliver the messages of the outbox *name*.

        Args:
            name: The outbox's name.
            delivery: Called with each claimed message, in one of *concurrency* threads. No
                heartbeat is sent meanwhile: a delivery that may take longer than 60 s calls
                `JobHandle.heartbeat` itself.
            concurrency: How many deliveries at once, 1 to 1,000.

        Returns:
            The runner, started.

        Raises:
            InvalidName: *name* breaks the naming rule (`ReservedName` when reserved).
            InvalidOption: *delivery* cannot be called or is a coroutine function or a generator
                function (see `Delivery`), or *concurrency* is out of range.
        """
        ...

    def close(self) -> None:
        """Stop the runners, quietly, and close what the store opened. May be repeated.

        Handlers may finish for up to 5 s; then their claims are released.
        """
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
