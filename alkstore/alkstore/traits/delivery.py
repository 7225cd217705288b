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

    It does its work while it is called. A coroutine function or a generator function does
    nothing then, so it is refused (`InvalidOption`), and a call that returns a coroutine, another
    awaitable or a generator counts as a failed attempt: call ``asyncio.run()`` inside.
    """

    def __call__(self, handle: JobHandle, /) -> object:
        """Deliver the message behind *handle*; what is returned is not kept.

        Args:
            handle: The claimed message.
        """
        ...


class Handler(Protocol):
    """Does the work of one job.

    Returning acknowledges the job, unless the handler settled it itself; raising retries
    it on the curve. The worker sends heartbeats while it runs; `JobHandle.lost` tells a
    long handler that its claim is gone.

    It does its work while it is called, under the same rule as a `Delivery`.
    """

    def __call__(self, handle: JobHandle, /) -> object:
        """Work on the job behind *handle*; what is returned is not kept.

        Args:
            handle: The claimed job.
        """
        ...
