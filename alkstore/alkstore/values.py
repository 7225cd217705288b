"""Frozen value types: what the store tells about its rows.

Times are aware datetimes in UTC, read from the store clock; durations are `timedelta`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Literal

JobState = Literal["pending", "processing"]
"""A live job waits, or is held by a claim. Settled jobs are gone or dead letters."""

RunnerState = Literal["starting", "leading", "standby", "working", "backing-off", "stopped"]


@dataclass(frozen=True, slots=True)
class Payload:
    """Stored bytes that decode when they are read.

    A pickled one carries its bytes and what decodes them, the codec of its store: it can be
    pickled where that can, and what the codec holds, a key for one, goes with it.

    Attributes:
        raw: The bytes as stored.
    """

    raw: bytes = field(repr=False)
    _decode: Callable[[bytes], Any] = field(repr=False, compare=False)

    def value(self) -> Any:
        """Return the decoded payload.

        Raises:
            DecodeError: The stored bytes do not decode.
        """
        return self._decode(self.raw)

    def __deepcopy__(self, memo: dict[int, Any]) -> Payload:
        """Return itself: nothing in it changes, and the codec is shared by all of a store."""
        return self


@dataclass(frozen=True, slots=True, kw_only=True)
class _WithPayload:
    stored: Payload = field(repr=False)

    @property
    def payload(self) -> Any:
        """The decoded payload, decoded anew at each reading.

        Raises:
            DecodeError: The stored bytes do not decode; they are still there as `raw`.
        """
        return self.stored.value()

    @property
    def raw(self) -> bytes:
        """The payload's bytes as stored."""
        return self.stored.raw


@dataclass(frozen=True, slots=True, kw_only=True)
class Job(_WithPayload):
    """A live job, whole.

    Attributes:
        id: The job's id, unique in the store and never used again.
        queue: The queue's name.
        state: ``"pending"`` or ``"processing"`` (a claim holds it, lapsed or not).
        priority: Higher first.
        run_at: When it is, or was, due.
        expires_at: After this it is no longer claimable, or ``None``.
        attempts: How many claims it has had, not counting released ones.
        max_attempts: Its attempt budget.
        visibility_timeout: How long a claim holds without a heartbeat.
        base_backoff: The first gap of its retry curve.
        worker_id: Who holds it, or ``None``.
        claim_expires_at: When the claim lapses, or ``None``.
        schedule: The schedule that fired it, or ``None``.
        scheduled_for: The boundary it was fired for, or ``None``.
        enqueued_at: When it was enqueued.
    """

    id: int
    queue: str
    state: JobState
    priority: int
    run_at: datetime
    expires_at: datetime | None
    attempts: int
    max_attempts: int
    visibility_timeout: timedelta
    base_backoff: timedelta
    worker_id: str | None
    claim_expires_at: datetime | None
    schedule: str | None
    scheduled_for: datetime | None
    enqueued_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadJob(_WithPayload):
    """A dead letter: a job that will not run again unless it is requeued.

    Attributes:
        error: Why it died: the handler's error text, ``max attempts exceeded`` or
            ``expired``.
        died_at: When it became a dead letter.

    The other attributes are those of `Job`.
    """

    id: int
    queue: str
    priority: int
    attempts: int
    max_attempts: int
    visibility_timeout: timedelta
    base_backoff: timedelta
    error: str
    schedule: str | None
    scheduled_for: datetime | None
    enqueued_at: datetime
    died_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueStats:
    """How a queue stands.

    Attributes:
        ready: Jobs that a claim would get now, jobs whose claim lapsed included.
        delayed: Jobs that are not due yet and were never tried.
        retrying: Jobs that are not due yet and wait for another attempt.
        running: Jobs that a claim holds.
        dead: Dead letters.
        oldest_ready_age: How long the longest-waiting ready job has been due, or
            ``None`` when none is ready.
        estimated: Whether some of the counts are estimates, because there is too much to
            count in a moment. Small counts are always exact.
    """

    ready: int
    delayed: int
    retrying: int
    running: int
    dead: int
    oldest_ready_age: timedelta | None
    estimated: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule(_WithPayload):
    """A schedule as stored.

    Attributes:
        name: Its name.
        spec: Its spec, as given at registration.
        interval: The distance of its boundaries (zero when the spec is damaged).
        queue: Where its jobs go.
        priority: Stamped on its jobs.
        expires: Its jobs expire this long after the fire, or ``None``.
        max_attempts: Stamped on its jobs; ``None``: the queue default.
        starts_at: The anchor it was registered with, or ``None``.
        catch_up: ``"all"`` or ``"latest"``.
        next_fire_at: Its next boundary; ``None`` only when the row is damaged.
        last_fire_at: The last boundary that fired, or ``None``.
        paused: Whether it is paused.
        skipped: How many due boundaries were passed over without a fire: those past the cap of
            64, or before the newest with ``"latest"``. What a pause passes over is not counted.
        quarantine: Why it cannot be fired, or ``None``.
    """

    name: str
    spec: str
    interval: timedelta
    queue: str
    priority: int
    expires: timedelta | None
    max_attempts: int | None
    starts_at: datetime | None
    catch_up: str
    next_fire_at: datetime | None
    last_fire_at: datetime | None
    paused: bool
    skipped: int
    quarantine: str | None


@dataclass(frozen=True, slots=True)
class Wake:
    """A hint that something happened on a channel, and nothing else.

    Attributes:
        channel: The name of the mechanism.
    """

    channel: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RunnerHealth:
    """How a runner does.

    Attributes:
        healthy: Whether it runs, and has come to nothing for no longer than 30 s: neither has
            it backed off for longer nor is its last good turn older; nor, for a scheduler
            that leads, is a schedule late, or was the database asked about that in vain for
            longer. The same for all kinds; ``state`` tells of each failure at once.
        state: Its state.
        reason: Why it is not healthy, or ``None``.
        last_good_turn: Seconds since its last turn without an error, or ``None`` when
            there was none.
        last_error: The last unexpected error, or ``None``.
        details: What else its kind of runner knows.

            Every kind: ``failures``, how many unexpected errors there were so far.

            Workers and outbox relays: ``concurrency``, how many jobs at once; ``running``, how
            many handlers run, those whose claim was given up included; ``in_hand``, how many
            claims are held, those that wait for a handler or for their settlement included;
            ``finished``, how many handlers have ended so far.

            A scheduler that leads, or wants to go on leading, each only when there is one:
            ``late``, the names of the schedules that should have fired long ago;
            ``quarantined``, for each schedule that cannot be fired the reason, by name;
            ``unanswered``, why the database could not be asked about them just now. Then they
            are those that were found last.
    """

    healthy: bool
    state: RunnerState
    reason: str | None
    last_good_turn: float | None
    last_error: BaseException | None
    details: dict[str, Any] = field(default_factory=dict)
