"""Reading jobs and dead letters, counting them, and working the dead letters."""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from datetime import timedelta

from alkstore.memory.access import Access
from alkstore.memory.clock import later
from alkstore.memory.data import DeadRow, JobRow
from alkstore.values import DeadJob, Job, QueueStats


class Inspection:
    """Answers questions about jobs, and makes dead letters live or nothing.

    Args:
        access: The way to the tables.
    """

    def __init__(self, access: Access) -> None:
        self._access = access

    def get_job(self, job_id: int) -> Job | None:
        """Return a live job, or ``None``."""
        with self._access.tables() as data:
            job = data.jobs.get(job_id)
            if job is None:
                return None
            return self._job(job)

    def peek(self, queue: str, limit: int) -> list[Job]:
        """Return up to *limit* live jobs of *queue*: those that wait, then those that are held."""
        with self._access.tables() as data:
            rows = [job for job in data.jobs.values() if job.queue == queue]
            waiting = [job for job in rows if job.claim_expires_at is None]
            waiting.sort(key=lambda job: (-job.priority, job.run_at, job.id))
            held = [
                (job.claim_expires_at, job.id, job)
                for job in rows
                if job.claim_expires_at is not None
            ]
            held.sort(key=lambda entry: entry[:2])
            rows = [*waiting, *(job for _, _, job in held)]
            return [self._job(job) for job in rows[:limit]]

    def _job(self, job: JobRow) -> Job:
        return Job(
            id=job.id,
            queue=job.queue,
            stored=self._access.stored(job.payload),
            state="pending" if job.claim_id is None else "processing",
            priority=job.priority,
            run_at=job.run_at,
            expires_at=job.expires_at,
            attempts=job.attempts,
            max_attempts=job.max_attempts,
            visibility_timeout=timedelta(seconds=job.visibility_timeout),
            base_backoff=timedelta(seconds=job.base_backoff),
            worker_id=job.worker_id,
            claim_expires_at=job.claim_expires_at,
            schedule=job.schedule,
            scheduled_for=job.scheduled_for,
            enqueued_at=job.enqueued_at,
        )

    def size(self, queue: str) -> int:
        """Return how many live jobs *queue* has."""
        with self._access.tables() as data:
            return sum(job.queue == queue for job in data.jobs.values())

    def stats(self, queue: str) -> QueueStats:
        """Return how *queue* stands.

        What has expired, or lapsed in its last attempt, counts as nothing: it is a dead
        letter that no claim has met yet.
        """
        ready = delayed = retrying = running = 0
        oldest = None
        with self._access.tables() as data:
            now = data.clock.now()
            for job in data.jobs.values():
                if job.queue != queue:
                    continue
                if job.is_running(now):
                    running += 1
                elif job.is_used_up(now) or job.is_expired(now):
                    continue
                elif job.run_at <= now:
                    ready += 1
                    oldest = job.run_at if oldest is None else min(oldest, job.run_at)
                elif job.attempts == 0:
                    delayed += 1
                else:
                    retrying += 1
            dead = sum(row.job.queue == queue for row in data.dead.values())
        return QueueStats(
            ready=ready,
            delayed=delayed,
            retrying=retrying,
            running=running,
            dead=dead,
            oldest_ready_age=None if oldest is None else now - oldest,
        )

    def dead(self, queue: str, limit: int, after: DeadJob | None) -> list[DeadJob]:
        """Return up to *limit* dead letters of *queue*, the latest first, behind *after*."""
        with self._access.tables() as data:
            rows = [
                row
                for row in data.dead.values()
                if row.job.queue == queue
                and (after is None or (row.died_at, row.job.id) < (after.died_at, after.id))
            ]
            latest = heapq.nlargest(limit, rows, key=lambda row: (row.died_at, row.job.id))
            return [self._dead_job(row) for row in latest]

    def requeue(self, queue: str, ids: Sequence[int]) -> int:
        """Make dead letters of *queue* live again; return how many there were."""
        with self._access.tables() as data:
            now = data.clock.now()
            risen = [
                data.dead.pop(job_id).job
                for job_id in sorted(set(ids))
                if job_id in data.dead and data.dead[job_id].job.queue == queue
            ]
            for job in risen:
                job.attempts = 0
                job.run_at = now
                job.expires_at = None
                data.jobs[job.id] = job
            if risen:
                data.wakes.wake(queue)
            return len(risen)

    def purge(self, queue: str, ids: Sequence[int] | None, older_than: float) -> int:
        """Delete dead letters that died *older_than* seconds ago; return how many."""
        with self._access.tables() as data:
            now = data.clock.now()
            chosen = [
                job_id
                for job_id, row in data.dead.items()
                if row.job.queue == queue
                and later(row.died_at, older_than) <= now
                and (ids is None or job_id in ids)
            ]
            for job_id in chosen:
                del data.dead[job_id]
            return len(chosen)

    def _dead_job(self, row: DeadRow) -> DeadJob:
        job = row.job
        return DeadJob(
            id=job.id,
            queue=job.queue,
            stored=self._access.stored(job.payload),
            priority=job.priority,
            attempts=job.attempts,
            max_attempts=job.max_attempts,
            visibility_timeout=timedelta(seconds=job.visibility_timeout),
            base_backoff=timedelta(seconds=job.base_backoff),
            error=row.error,
            schedule=job.schedule,
            scheduled_for=job.scheduled_for,
            enqueued_at=job.enqueued_at,
            died_at=row.died_at,
        )
