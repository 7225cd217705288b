"""The tables of a memory store: plain rows in plain dicts under one re-entrant lock.

Several stores may share them (`MemoryStore.sibling`), as several processes share a
database. A row is an ordinary mutable object, so that a test can damage one by hand, as
somebody with a database console would:

    with store.data.lock:
        store.data.schedules["report"].spec = "@hourly"
"""

from __future__ import annotations

import itertools
import os
import threading
from dataclasses import dataclass
from datetime import datetime

from alkstore.memory.clock import Clock
from alkstore.memory.forks import Alive
from alkstore.memory.wakes import Wakes


@dataclass(slots=True, kw_only=True)
class JobRow:
    """A live job. It is held when *claim_id* is set, and lapsed when that claim's time is up."""

    id: int
    queue: str
    payload: bytes
    priority: int
    run_at: datetime
    expires_at: datetime | None
    max_attempts: int
    visibility_timeout: float
    base_backoff: float
    enqueued_at: datetime
    schedule: str | None = None
    scheduled_for: datetime | None = None
    attempts: int = 0
    claim_id: int | None = None
    worker_id: str | None = None
    claim_expires_at: datetime | None = None

    def is_expired(self, now: datetime) -> bool:
        """Whether it is too late to begin with it."""
        return self.expires_at is not None and self.expires_at <= now

    def is_running(self, now: datetime) -> bool:
        """Whether a claim holds it whose time is not up."""
        return self.claim_expires_at is not None and self.claim_expires_at > now

    def is_used_up(self, now: datetime) -> bool:
        """Whether it lapsed in its last attempt."""
        return (
            self.claim_id is not None
            and not self.is_running(now)
            and self.attempts >= self.max_attempts
        )

    def forget_claim(self) -> None:
        """Make it pending."""
        self.claim_id = self.worker_id = self.claim_expires_at = None


@dataclass(slots=True, kw_only=True)
class DeadRow:
    """A dead letter: the job as it was, and how it ended."""

    job: JobRow
    error: str
    died_at: datetime


@dataclass(slots=True, kw_only=True)
class LockRow:
    """A lock that was taken once; it stays, so that the token only ever grows."""

    token: int
    owner: str | None
    expires_at: datetime | None


@dataclass(slots=True, kw_only=True)
class ScheduleRow:
    """A schedule. Its grid is *next_fire_at* and what the *spec* says, nothing else."""

    name: str
    spec: str
    queue: str
    payload: bytes | None
    priority: int
    expires: float | None
    max_attempts: int | None
    catch_up: str
    starts_at: datetime | None
    next_fire_at: datetime | None
    last_fire_at: datetime | None = None
    paused: bool = False
    skipped: int = 0
    quarantine: str | None = None


class MemoryData:
    """What several stores may share.

    Attributes:
        clock: The store clock.
        lock: Held for as long as anything here is read or changed; nobody sleeps, and no
            code of the application runs, while holding it. A fork waits for it, so that the
            child's copy is whole.
        jobs: Live jobs by id.
        dead: Dead letters by id.
        locks: Locks by name.
        schedules: Schedules by name.
        wakes: Who hears which name.
    """

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.lock = threading.RLock()
        self.jobs: dict[int, JobRow] = {}
        self.dead: dict[int, DeadRow] = {}
        self.locks: dict[str, LockRow] = {}
        self.schedules: dict[str, ScheduleRow] = {}
        self.wakes = Wakes()
        self._ids = itertools.count(1)
        self._claims = itertools.count(1)
        _all.add(self)

    def new_job_id(self) -> int:
        """Return an id that was never given before, whatever becomes of it."""
        return next(self._ids)

    def new_claim_id(self) -> int:
        """Return an identity for a claim that never comes back."""
        return next(self._claims)

    def bury(self, job: JobRow, error: str, now: datetime) -> None:
        """Make a live job a dead letter."""
        del self.jobs[job.id]
        job.forget_claim()
        self.dead[job.id] = DeadRow(job=job, error=error, died_at=now)

    def after_fork(self) -> None:
        """Leave lock and waiters to the parent's threads: none of them is here."""
        self.lock = threading.RLock()
        self.wakes = Wakes()


class _HeldForFork(threading.local):
    """What this thread holds while it forks: another one may be about to fork as well."""

    def __init__(self) -> None:
        self.data: list[MemoryData] = []


_all: Alive[MemoryData] = Alive()
_held = _HeldForFork()


def _before_fork() -> None:
    # Always the oldest first: two threads that fork must not wait for each other.
    for data in _all.all():
        data.lock.acquire()
        _held.data.append(data)


def _after_fork_in_parent() -> None:
    while _held.data:
        _held.data.pop().lock.release()


def _after_fork_in_child() -> None:
    while _held.data:
        _held.data.pop().after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_before_fork,
        after_in_parent=_after_fork_in_parent,
        after_in_child=_after_fork_in_child,
    )
