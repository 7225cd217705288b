"""Settling claims: what became of a job is written only while the claim is still that claim."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from alkstore.memory.access import Access
from alkstore.memory.clock import later
from alkstore.memory.data import JobRow, MemoryData

Claim = tuple[int, int]
"""A claim's identity in its tables: the job's id and the claim's own."""


class Settling:
    """Writes what became of claims.

    Args:
        access: The way to the tables.
    """

    def __init__(self, access: Access) -> None:
        self._access = access

    @property
    def data(self) -> MemoryData:
        """The tables that hold the claims: what an identity is unique in."""
        return self._access.data

    def ack(self, claims: Iterable[Claim]) -> set[Claim]:
        """Finish the jobs that are still held; return by which claims."""

        def finish(data: MemoryData, job: JobRow) -> None:
            del data.jobs[job.id]

        return self._touch(claims, finish)

    def retry(self, claim: Claim, delay: float) -> bool:
        """Give a job back, due in *delay* seconds."""

        def give_back(data: MemoryData, job: JobRow) -> None:
            job.forget_claim()
            job.run_at = later(data.clock.now(), delay)
            data.wakes.wake(job.queue)

        return bool(self._touch([claim], give_back))

    def release(self, claims: Iterable[Claim]) -> set[Claim]:
        """Give jobs that are still held back as they were before; return by which claims.

        One wake of each queue is for all of them.
        """
        queues: set[str] = set()

        def give_back(_: MemoryData, job: JobRow) -> None:
            job.forget_claim()
            job.attempts -= 1
            queues.add(job.queue)

        with self._access.tables() as data:
            released = self._touch(claims, give_back)
            for queue in queues:
                data.wakes.wake(queue)
        return released

    def bury(self, claim: Claim, error: str) -> bool:
        """Make a job a dead letter with the text *error*."""
        return bool(self._touch([claim], lambda data, job: data.bury(job, error, data.clock.now())))

    def heartbeat(self, claim: Claim, extend: float) -> bool:
        """Hold a claim for *extend* seconds from now."""

        def hold(data: MemoryData, job: JobRow) -> None:
            job.claim_expires_at = later(data.clock.now(), extend)

        return bool(self._touch([claim], hold))

    def heartbeat_many(self, claims: Iterable[Claim], at_least: float) -> set[Claim]:
        """Extend the claims that are still held by their timeouts; return which they were."""

        def hold(data: MemoryData, job: JobRow) -> None:
            length = max(job.visibility_timeout, at_least)
            job.claim_expires_at = later(data.clock.now(), length)

        return self._touch(claims, hold)

    def cancel(self, queue: str, job_id: int) -> bool:
        """Delete a live job of *queue*, held or not."""
        with self._access.tables() as data:
            job = data.jobs.get(job_id)
            if job is None or job.queue != queue:
                return False
            del data.jobs[job_id]
            return True

    def _touch(
        self, claims: Iterable[Claim], change: Callable[[MemoryData, JobRow], None]
    ) -> set[Claim]:
        """Change the jobs of those *claims* that are still theirs; return which these were."""
        held: set[Claim] = set()
        with self._access.tables() as data:
            for claim in set(claims):
                job = data.jobs.get(claim[0])
                if job is not None and job.claim_id == claim[1]:
                    change(data, job)
                    held.add(claim)
        return held
