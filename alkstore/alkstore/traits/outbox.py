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
        """Store a message in a transaction of its own and return its message id.

        Arguments and errors as `Queue.enqueue`. To store it with your own rows, use
        `Store.outbox_enqueue_tx`.
        """
        ...

    def run_once(self, worker_id: str, delivery: Delivery) -> bool:
        """Deliver one message, if one is due.

        It claims one job and calls *delivery* with its handle, with no connection and no
        transaction held. When that returns, the job is acknowledged; when it raises, the
        job is retried on the curve with the error's text, so that the fifth failure is a
        dead letter. `KeyboardInterrupt` and `SystemExit` release the job and propagate.

        Returns:
            Whether there was a message.
        """
        ...

    def run(self, worker_id: str, delivery: Delivery, stop: StopToken) -> None:
        """Deliver messages one after the other until *stop* is cancelled."""
        ...

    def peek(self, limit: int = 100) -> list[Job]:
        """Return undelivered messages without touching them, as `Queue.peek`."""
        ...

    def dead(self, limit: int = 100, after: DeadJob | None = None) -> list[DeadJob]:
        """Return undeliverable messages, as `Queue.dead`."""
        ...

    def requeue(self, ids: Sequence[int]) -> int:
        """Make dead letters live again, as `Queue.requeue`."""
        ...

    def purge(
        self, ids: Sequence[int] | None = None, *, older_than: Seconds | timedelta | None = None
    ) -> int:
        """Delete dead letters for good, as `Queue.purge`."""
        ...

    def stats(self) -> QueueStats:
        """Return how the outbox stands, as `Queue.stats`."""
        ...
