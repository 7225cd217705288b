"""Queues: durable, at-least-once jobs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import timedelta
from typing import Any, Protocol

from alkstore._typing import Unpack
from alkstore.arguments import Seconds
from alkstore.options import EnqueueOptions
from alkstore.stop_token import StopToken
from alkstore.traits.job_handle import JobHandle
from alkstore.values import DeadJob, Job, QueueStats


class Queue(Protocol):
    """A durable queue. Handles are cheap, hold only options, and are thread-safe.

    Every call but `name` goes to the database, and raises `DatabaseError` when that, or the
    way to it, failed, and `StoreClosed` once the store was closed.
    """

    @property
    def name(self) -> str:
        """The queue's name."""
        ...

    def enqueue(self, payload: Any, **options: Unpack[EnqueueOptions]) -> int:
        """Store a job; once this returns, it is never lost.

        Args:
            payload: What the store's codec can encode.
            **options: ``delay`` (seconds or `timedelta` from now) or ``run_at`` (aware
                `datetime`): when it is due, else at once. ``priority``: higher first,
                -32,768 to 32,767, 0 unless given. ``expires``: seconds or `timedelta` from
                now after which it is no longer claimable, longer than ``delay``.
                ``max_attempts``: the queue's unless given.

        Returns:
            The job's id, unique in the store and never used again.

        Raises:
            EncodeError: The payload has no encoding.
            PayloadTooLarge: It is larger than the store allows.
            InvalidOption: An option is unknown or impossible.
            DatabaseError: The database failed; the job may or may not be stored when the
                connection broke during the commit.
        """
        ...

    def enqueue_many(self, payloads: Iterable[Any], **options: Unpack[EnqueueOptions]) -> list[int]:
        """Store a job for each payload, all or none.

        One transaction, built for 100,000 payloads a call.

        Args:
            payloads: What the store's codec can encode, each.
            **options: As `enqueue`, for all of them.

        Returns:
            The jobs' ids, in the order of the payloads.

        Raises:
            EncodeError: As `enqueue`; the message says which one.
            PayloadTooLarge: As `enqueue`.
            InvalidOption: As `enqueue`, or *payloads* cannot be iterated over, or is text,
                bytes or a mapping.
            DatabaseError: As `enqueue`.
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

        Returns:
            The handles, in the order of the claim; empty when nothing is due.

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
            stop: Ends the wait within 100 ms.

        Returns:
            The handles; empty when the time was up or *stop* was cancelled.

        Raises:
            InvalidName: As `claim`.
            InvalidOption: *limit*, *timeout* or *stop* is impossible.
        """
        ...

    def jobs(self, worker_id: str, *, stop: StopToken | None = None) -> Iterator[JobHandle]:
        """Iterate over claimed jobs, one at a time, until *stop* is cancelled.

        Args:
            worker_id: As `claim`.
            stop: Ends the iteration; ``None``: it never ends.

        Returns:
            An iterator of handles. Each is settled before the next is asked for, or else
            lapses.

        Raises:
            InvalidName: As `claim`, at the call.
            InvalidOption: *stop* is no stop token, at the call.
            StoreClosed: The store was closed before the call, or while the iteration waits; one
                that was stopped ends as ever.
        """
        ...

    def ack_many(self, handles: Iterable[JobHandle]) -> int:
        """Finish jobs in one statement.

        Args:
            handles: Claims of this queue, made through any store over the same data.

        Returns:
            How many were still held; the others' `JobHandle.lost` is true afterwards.

        Raises:
            InvalidOption: One of *handles* is not of this queue, or of a store over other
                data as far as the engine can tell without asking: otherwise it counts as no
                longer held.
        """
        ...

    def heartbeat_many(self, handles: Iterable[JobHandle], at_least: Seconds | None = None) -> int:
        """Extend the claims of *handles* by their visibility timeouts, in one statement.

        Args:
            handles: As `ack_many`.
            at_least: Seconds or `timedelta`: hold each claim for this long when its
                visibility timeout is shorter. For a process that knows that its next
                heartbeat may be late.

        Returns:
            How many were still held; the others' `JobHandle.lost` is true afterwards.

        Raises:
            InvalidOption: *at_least* is not a duration, or *handles* as `ack_many`.
        """
        ...

    def cancel(self, job_id: int) -> bool:
        """Delete a live job, held or not.

        A handler that is working on it learns of it at its next heartbeat or settling
        call.

        Args:
            job_id: What `enqueue` returned.

        Returns:
            Whether there was such a job in this queue.

        Raises:
            InvalidOption: *job_id* is no int.
        """
        ...

    def peek(self, limit: int = 100) -> list[Job]:
        """Return live jobs without claiming or changing anything.

        Those that wait come first, in the order in which they would be claimed once they
        are due (priority, ``run_at``, id); then those that are held, those whose claim lapses
        first in front (``claim_expires_at``, id).

        Args:
            limit: How many at most, 1 to 10,000.

        Raises:
            InvalidOption: *limit* is out of range.
        """
        ...

    def size(self) -> int:
        """Count the live jobs.

        Returns:
            How many the queue has, pending or held, counted exactly: some tenths of a second
            for a million. `stats` is quick whatever there is.
        """
        ...

    def stats(self) -> QueueStats:
        """Count what waits, runs and is dead.

        Returns:
            The counts, at one moment of the store clock; see `QueueStats` for what each one
            counts, and when it is an estimate.
        """
        ...

    def dead(self, limit: int = 100, after: DeadJob | None = None) -> list[DeadJob]:
        """Return dead letters, the latest first.

        Args:
            limit: How many at most, 1 to 10,000.
            after: The last one of the page before; ``None``: the first page.

        Returns:
            One page of them; empty when there are no more.

        Raises:
            InvalidOption: *limit* is out of range, or *after* no dead letter, or one whose
                ``id`` or ``died_at`` was made up and cannot be.
        """
        ...

    def requeue(self, ids: Sequence[int]) -> int:
        """Make dead letters of this queue live again, due at once, with no attempts.

        They keep their ids and stamps, and expire no more.

        Args:
            ids: Those of `DeadJob.id`; others are passed over.

        Returns:
            How many there were.

        Raises:
            InvalidOption: One of *ids* is no int.
        """
        ...

    def purge(
        self, ids: Sequence[int] | None = None, *, older_than: Seconds | timedelta | None = None
    ) -> int:
        """Delete dead letters of this queue for good.

        Args:
            ids: Only these; ``None``: all.
            older_than: Seconds or `timedelta`: only those that died longer ago than this, on
                the store clock.

        Returns:
            How many were deleted.

        Raises:
            InvalidOption: One of *ids* is no int, or *older_than* is not a duration.
        """
        ...
