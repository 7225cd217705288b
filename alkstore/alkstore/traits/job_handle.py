"""A claim of a job: what a handler is called with."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Protocol

from alkstore.arguments import Seconds


class JobHandle(Protocol):
    """One claim of one job.

    Every claim has an identity of its own that never comes back. The settling calls
    (`ack`, `retry`, `fail`, `release`, `heartbeat`) return ``False``, change nothing and
    raise nothing when the claim is no longer this one. A claim that lapsed but that
    nobody took is still this one. They raise `DatabaseError` when the database fails; the
    claim then holds or lapses as its row says, and the call may be made again.
    """

    @property
    def id(self) -> int:
        """The job's id; for an outbox message, its stable message id."""
        ...

    @property
    def queue(self) -> str:
        """The queue's name."""
        ...

    @property
    def payload(self) -> Any:
        """The decoded payload, decoded anew at each reading.

        Raises:
            DecodeError: The stored bytes do not decode; inside a handler that is an ordinary
                failed attempt.
        """
        ...

    @property
    def raw(self) -> bytes:
        """The payload's bytes as stored."""
        ...

    @property
    def attempt(self) -> int:
        """Which attempt this is, from 1."""
        ...

    @property
    def max_attempts(self) -> int:
        """The job's attempt budget."""
        ...

    @property
    def visibility_timeout(self) -> float:
        """How long this claim holds without a heartbeat, in seconds."""
        ...

    @property
    def enqueued_at(self) -> datetime:
        """When the job was enqueued."""
        ...

    @property
    def schedule(self) -> str | None:
        """The schedule that fired the job, or ``None``."""
        ...

    @property
    def scheduled_for(self) -> datetime | None:
        """The boundary that the job was fired for, or ``None``."""
        ...

    @property
    def lost(self) -> bool:
        """Whether a settling call or a heartbeat has learnt that the claim is gone."""
        ...

    @property
    def settled(self) -> bool:
        """Whether this handle has settled its claim (ack, retry, fail or release)."""
        ...

    def ack(self) -> bool:
        """Finish the job.

        Returns:
            Whether the claim was still this one: the job never runs again then.
        """
        ...

    def retry(self, error: object, delay: Seconds | None = None) -> bool:
        """Give the job back after a failed attempt.

        Args:
            error: What went wrong; its text is stored when the job becomes a dead letter.
            delay: Seconds or `timedelta` until it is due again; ``None``: the retry
                curve (`retry_delay`): ``base_backoff * 2 ** (attempts - 1)``, at most 6 h.
                With the budget used up the job becomes a dead letter instead.

        Returns:
            Whether the claim was still this one.

        Raises:
            InvalidOption: *delay* is not a duration.
        """
        ...

    def fail(self, error: object) -> bool:
        """Make the job a dead letter at once.

        Args:
            error: What went wrong; its text is stored with the dead letter.

        Returns:
            Whether the claim was still this one.
        """
        ...

    def release(self) -> bool:
        """Put the job back as pending, due as before, the attempt given back.

        Returns:
            Whether the claim was still this one.
        """
        ...

    def heartbeat(self, extend: Seconds | None = None) -> bool:
        """Hold the claim for another *extend* from now.

        Args:
            extend: Seconds or `timedelta`; ``None``: the job's visibility timeout.

        Returns:
            Whether the claim was still this one; `lost` is true afterwards when not.

        Raises:
            InvalidOption: *extend* is not a positive duration.
        """
        ...
