"""Deliveries and handlers: the application's own code, called with a claimed job."""

from __future__ import annotations

from typing import Protocol

from alkstore.traits.job_handle import JobHandle


class Delivery(Protocol):
    """Hands one outbox message to its receiver.

    Returning acknowledges the message; raising retries it on the curve with the error's
    text. Delivery is at least once: a crash between delivery and acknowledgement sends
    the message again, with the same `JobHandle.id`, which the receiver may use for its
    own deduplication. A delivery that takes longer than the visibility timeout calls
    `JobHandle.heartbeat` itself.
    """

    def __call__(self, handle: JobHandle, /) -> object:
        """Deliver the message behind *handle*; what is returned is ignored.

        Args:
            handle: The claimed message.
        """
        ...


class Handler(Protocol):
    """Does the work of one job.

    Returning acknowledges the job, unless the handler settled it itself; raising retries
    it on the curve. The worker sends heartbeats while it runs; `JobHandle.lost` tells a
    long handler that its claim is gone.
    """

    def __call__(self, handle: JobHandle, /) -> object:
        """Work on the job behind *handle*; what is returned is ignored.

        Args:
            handle: The claimed job.
        """
        ...
