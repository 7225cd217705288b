"""Queues: durable, at-least-once jobs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime, timedelta
from typing import Any, Protocol

from alkstore._typing import Unpack
from alkstore.arguments import Seconds
from alkstore.options import EnqueueOptions
from alkstore.stop_token import StopToken
from alkstore.values import DeadJob, Job, QueueStats


class JobHandle(Protocol):
    """One claim of one job.

    Every claim has an identity of its own that never comes back. The settling calls
    (`ack`, `retry`, `fail`, `release`, `heartbeat`) return ``False``, change nothing and
    raise nothing when the claim is no longer this one. A claim that lapsed but that
    nobody took is still this one.
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
        """The decoded payload; raises `DecodeError` when the bytes do not decode."""
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
        """Finish the job: it never runs again."""
        ...

    def retry(self, error: object, delay: Seconds | None = None) -> bool:
        """Give the job back after a failed attempt.

        Args:
            error: What went wrong; its text is stored when the job becomes a dead letter.
            delay: Seconds or `timedelta` until it is due again; ``None``: the retry
                curve. With the budget used up the job becomes a dead letter instead.

        Raises:
            InvalidOption: *delay* is not a duration.
        """
        ...

    def fail(self, error: object) -> bool:
        """Make the job a dead letter at once, with the text of *error*."""
        ...

    def release(self) -> bool:
        """Put the job back as pending, due as before, the attempt given back."""
        ...

    def heartbeat(self, extend: Seconds | None = None) -> bool:
        """Hold the claim for another *extend* from now.

        Args:
            extend: Seconds or `timedelta`; ``None``: the job's visibility timeout.

        Raises:
            InvalidOption: *extend* is not a positive duration.
        """
        ...


class Queue(Protocol):
    """A durable queue. Handles are cheap, hold only options, and are thread-safe."""

    @property
    def name(self) -> str:
        """The queue's name."""
        ...

    def enqueue(self, payload: Any, **options: Unpack[EnqueueOptions]) -> int:
        """Store a job and return its id; once this returns, the job is never lost.

        Args:
            payload: What the store's codec can encode.
            **options: ``delay`` or ``run_at``, ``priority``, ``expires``,
                ``max_attempts``.

        Raises:
            EncodeError: The payload has no encoding.
            PayloadTooLarge: It is larger than the store allows.
            InvalidOption: An option is unknown or impossible.
            DatabaseError: The database failed; the job may or may not be stored when the
                connection broke during the commit.
        """
        ...

    def enqueue_many(self, payloads: Iterable[Any], **options: Unpack[EnqueueOptions]) -> list[int]:
        """Store a job for each payload, all or none, and return the ids in order.

        One transaction, built for 100,000 payloads a call. Arguments and errors as
        `enqueue`.
        """
        ...

    def claim(self, worker_id: str, limit: int = 1) -> list[JobHandle]:
        """Claim up to *limit* jobs, without waiting.

        Highest priority first, then earliest ``run_at``, then lowest id, among pending
        jobs that are due and not expired and processing jobs whose claim has lapsed. Two
        claimers never get the same job. A lapsed job whose attempts are used up becomes a
        dead letter (``max attempts exceeded``), an expired one too (``expired``).

        Args:
            worker_id: Who claims, for people who look at rows; any text of the naming
                rule. It proves nothing: the claim's own identity does.
            limit: How many at most, 1 to 10,000.

        Raises:
            InvalidName: *worker_id* breaks the naming rule.
            InvalidOption: *limit* is out of range.
        """
        ...

    def claim_wait(
        self,
        worker_id: str,
        limit: int = 1,
        timeout: Seconds | None = None,
        stop: StopToken | None = None,
    ) -> list[JobHandle]:
        """Claim up to *limit* jobs, sleeping until there is at least one.

        It sleeps on the queue's wake, the next due time, the time limit and the stop
        token, and looks again after 5 s at the latest.

        Args:
            worker_id: As `claim`.
            limit: As `claim`.
            timeout: Seconds or `timedelta` to wait at most; ``None``: no limit.
            stop: Ends the wait.

        Returns:
            The handles; empty when the time was up or *stop* was cancelled.
        """
        ...

    def jobs(self, worker_id: str, *, stop: StopToken | None = None) -> Iterator[JobHandle]:
        """Iterate over claimed jobs, one at a time, until *stop* is cancelled."""
        ...

    def ack_many(self, handles: Iterable[JobHandle]) -> int:
        """Finish the jobs of *handles* in one statement; return how many were still held."""
        ...

    def heartbeat_many(self, handles: Iterable[JobHandle], at_least: Seconds | None = None) -> int:
        """Extend the claims of *handles* by their visibility timeouts, in one statement.

        Args:
            handles: Claims of this queue.
            at_least: Seconds or `timedelta`: hold each claim for this long when its
                visibility timeout is shorter. For a process that knows that its next
                heartbeat may be late.

        Returns:
            How many were still held; the others' `JobHandle.lost` is true afterwards.

        Raises:
            InvalidOption: *at_least* is not a duration.
        """
        ...

    def cancel(self, job_id: int) -> bool:
        """Delete a live job, held or not; return whether there was one in this queue.

        A handler that is working on it learns of it at its next heartbeat or settling
        call.
        """
        ...

    def peek(self, limit: int = 100) -> list[Job]:
        """Return live jobs without claiming or changing anything.

        Those that wait come first, in the order in which they would be claimed once they
        are due (priority, ``run_at``, id); then those that are held.

        Args:
            limit: How many at most, 1 to 10,000.

        Raises:
            InvalidOption: *limit* is out of range.
        """
        ...

    def size(self) -> int:
        """Return how many live jobs the queue has, in any state."""
        ...

    def stats(self) -> QueueStats:
        """Return how the queue stands."""
        ...

    def dead(self, limit: int = 100, after: DeadJob | None = None) -> list[DeadJob]:
        """Return dead letters, the latest first.

        Args:
            limit: How many at most, 1 to 10,000.
            after: The last one of the page before.
        """
        ...

    def requeue(self, ids: Sequence[int]) -> int:
        """Make dead letters of this queue live again, due at once, with no attempts.

        They keep their ids and stamps; what had expired no longer expires.

        Returns:
            How many there were.
        """
        ...

    def purge(
        self, ids: Sequence[int] | None = None, *, older_than: Seconds | timedelta | None = None
    ) -> int:
        """Delete dead letters of this queue for good.

        Args:
            ids: Only these; ``None``: all.
            older_than: Only those that died longer ago than this.

        Returns:
            How many were deleted.
        """
        ...
