"""Jobs: stored and claimed."""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from datetime import datetime
from typing import Final

from alkstore.memory.access import Access, Sleeper
from alkstore.memory.clock import later
from alkstore.memory.data import JobRow, MemoryData
from alkstore.memory.handle import MemoryJobHandle
from alkstore.memory.settling import Settling
from alkstore.options import Enqueue
from alkstore.stop_token import StopToken

MAX_ATTEMPTS_EXCEEDED: Final = "max attempts exceeded"
EXPIRED: Final = "expired"


def new_job(data: MemoryData, queue: str, raw: bytes, options: Enqueue) -> JobRow:
    """Return the row of a job that is enqueued now; it is in no table yet."""
    now = data.clock.now()
    return JobRow(
        id=data.new_job_id(),
        queue=queue,
        payload=raw,
        priority=options.priority,
        run_at=later(now, options.delay) if options.run_at is None else options.run_at,
        expires_at=None if options.expires is None else later(now, options.expires),
        max_attempts=options.stamps.max_attempts,
        visibility_timeout=options.stamps.visibility_timeout,
        base_backoff=options.stamps.base_backoff,
        enqueued_at=now,
    )


def claim_order(job: JobRow) -> tuple[int, datetime, int]:
    """Return where *job* stands among those that wait: the smallest is claimed first."""
    return -job.priority, job.run_at, job.id


class Jobs:
    """Takes jobs in, and hands them out to workers.

    Args:
        access: The way to the tables.
        settling: Settles the claims that are handed out.
    """

    def __init__(self, access: Access, settling: Settling) -> None:
        self._access = access
        self._settling = settling

    def store(self, queue: str, raws: Sequence[bytes], options: Enqueue) -> list[int]:
        """Store a job for each of *raws*; return the ids in order."""
        with self._access.tables() as data:
            rows = [new_job(data, queue, raw, options) for raw in raws]
            data.jobs.update((row.id, row) for row in rows)
            if rows:
                data.wakes.wake(queue)
            return [row.id for row in rows]

    def claim(self, queue: str, worker_id: str, limit: int) -> list[MemoryJobHandle]:
        """Claim up to *limit* jobs; first bury what nobody will run any more."""
        with self._access.tables() as data:
            now = data.clock.now()
            self._sweep(data, queue, now)
            free = [
                job
                for job in data.jobs.values()
                if job.queue == queue and job.run_at <= now and not job.is_running(now)
            ]
            first = heapq.nsmallest(limit, free, key=claim_order)
            claim_id = data.new_claim_id()
            for job in first:
                job.claim_id = claim_id
                job.worker_id = worker_id
                job.attempts += 1
                job.claim_expires_at = later(now, job.visibility_timeout)
            return [MemoryJobHandle(job, self._settling, self._access.codec) for job in first]

    def claim_wait(
        self, queue: str, worker_id: str, limit: int, timeout: float | None, stop: StopToken | None
    ) -> list[MemoryJobHandle]:
        """Claim up to *limit* jobs, sleeping up to *timeout* seconds until there is one."""
        with Sleeper(self._access, queue, stop, timeout) as sleeper:
            while stop is None or not stop.cancelled:
                handles = self.claim(queue, worker_id, limit)
                if handles or sleeper.left <= 0:
                    return handles
                sleeper.sleep(self._until_next(queue))
            return []

    def _sweep(self, data: MemoryData, queue: str, now: datetime) -> None:
        for job in list(data.jobs.values()):
            if job.queue != queue or job.is_running(now):
                continue
            if job.is_used_up(now):
                data.bury(job, MAX_ATTEMPTS_EXCEEDED, now)
            elif job.is_expired(now):
                data.bury(job, EXPIRED, now)

    def _until_next(self, queue: str) -> float | None:
        """Return in how many seconds something becomes claimable, ``None``: nothing will."""
        with self._access.tables() as data:
            now = data.clock.now()
            times = [
                job.claim_expires_at if job.claim_expires_at is not None else job.run_at
                for job in data.jobs.values()
                if job.queue == queue
            ]
        return (min(times) - now).total_seconds() if times else None
