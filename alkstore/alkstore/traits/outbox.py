"""Outboxes: messages that are written with the data and delivered afterwards."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any, Protocol

from alkstore._typing import Unpack
from alkstore.arguments import Seconds
from alkstore.options import EnqueueOptions
from alkstore.stop_token import StopToken
from alkstore.traits.delivery import Delivery
from alkstore.values import DeadJob, Job, QueueStats


class Outbox(Protocol):
    """A helper over a queue of its own that nothing else reaches.

    Its jobs hold a claim for 60 s, have 5 attempts and a first backoff of 5 s. Messages
    are delivered at least once, in no promised order.
    """

    @property
    def name(self) -> str:
        """The outbox's name."""
        ...

    def enqueue(self, payload: Any, **options: Unpack[EnqueueOptions]) -> int:
        """Store a message in a transaction of its own.

        To store it with your own rows, use `Store.outbox_enqueue_tx`.

        Args:
            payload: As `Queue.enqueue`.
            **options: As `Queue.enqueue`; without ``max_attempts`` there are 5.

        Returns:
            The message's id, the same at each delivery.

        Raises:
            EncodeError: As `Queue.enqueue`.
            PayloadTooLarge: As `Queue.enqueue`.
            InvalidOption: As `Queue.enqueue`.
            DatabaseError: As `Queue.enqueue`.
        """
        ...

    def run_once(self, worker_id: str, delivery: Delivery) -> bool:
        """Deliver one message, if one is due.

        It claims one job and calls *delivery* with its handle, with no connection and no
        transaction held. When that returns, the job is acknowledged; when it raises, the
        job is retried on the curve with the error's text, so that the fifth failure is a
        dead letter. `KeyboardInterrupt` and `SystemExit` release the job and propagate.

        Args:
            worker_id: As `Queue.claim`.
            delivery: The application's code.

        Returns:
            Whether there was a message.

        Raises:
            InvalidName: *worker_id* breaks the naming rule.
            InvalidOption: *delivery* cannot be called, or is a coroutine function or a generator
                function.
            DatabaseError: The claim failed, or its end could not be written: the message is
                delivered again when the claim lapses.
        """
        ...

    def run(self, worker_id: str, delivery: Delivery, stop: StopToken) -> None:
        """Deliver messages one after the other until *stop* is cancelled.

        It sleeps like `Queue.claim_wait` and goes on when the database was away.

        Args:
            worker_id: As `Queue.claim`.
            delivery: As `run_once`.
            stop: Ends it within 100 ms, once the delivery that is under way has ended.

        Raises:
            InvalidName: *worker_id* breaks the naming rule.
            InvalidOption: *delivery* cannot be called, or is a coroutine function or a generator
                function; or *stop* is no stop token.
            StoreClosed: The store was closed.
        """
        ...

    def peek(self, limit: int = 100) -> list[Job]:
        """Return undelivered messages without claiming or changing anything.

        Args:
            limit: As `Queue.peek`.

        Returns:
            As `Queue.peek`.

        Raises:
            InvalidOption: *limit* is out of range.
        """
        ...

    def dead(self, limit: int = 100, after: DeadJob | None = None) -> list[DeadJob]:
        """Return undeliverable messages, the latest first.

        Args:
            limit: As `Queue.dead`.
            after: As `Queue.dead`.

        Returns:
            As `Queue.dead`.

        Raises:
            InvalidOption: As `Queue.dead`.
        """
        ...

    def requeue(self, ids: Sequence[int]) -> int:
        """Make dead letters live again, due at once, with no attempts.

        Args:
            ids: As `Queue.requeue`.

        Returns:
            How many there were.

        Raises:
            InvalidOption: As `Queue.requeue`.
        """
        ...

    def purge(
        self, ids: Sequence[int] | None = None, *, older_than: Seconds | timedelta | None = None
    ) -> int:
        """Delete dead letters for good.

        Args:
            ids: As `Queue.purge`.
            older_than: As `Queue.purge`.

        Returns:
            How many were deleted.

        Raises:
            InvalidOption: As `Queue.purge`.
        """
        ...

    def stats(self) -> QueueStats:
        """Count what waits, is being delivered, and is dead.

        Returns:
            As `Queue.stats`.
        """
        ...
