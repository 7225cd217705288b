"""Options: their types, their defaults, and one function for each way they resolve.

Options are keyword arguments. Each entry point takes a `TypedDict` unpacked into its
signature and hands what it got to the resolver of that kind, which refuses what is
unknown or impossible (`InvalidOption`) before anything touches a database, and returns a
frozen value with plain units: seconds, counts and aware datetimes. An option that is
``None`` counts as not given.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, Literal, TypedDict

from alkstore.arguments import (
    Seconds,
    aware_utc,
    positive_int,
    positive_seconds,
    refuse_unknown,
    seconds,
    shown,
)
from alkstore.errors import InvalidOption

MIN_PRIORITY: Final = -32_768
MAX_PRIORITY: Final = 32_767
MAX_ATTEMPTS_LIMIT: Final = 2_147_483_647
"""The largest attempt budget (a 32-bit integer)."""

CatchUp = Literal["all", "latest"]


class EnqueueOptions(TypedDict, total=False):
    """What `enqueue` takes besides the payload."""

    delay: Seconds
    run_at: datetime
    priority: int
    expires: Seconds
    max_attempts: int


class QueueOptions(TypedDict, total=False):
    """What a queue handle stamps on the jobs that go through it."""

    visibility_timeout: Seconds
    max_attempts: int
    base_backoff: Seconds


class ScheduleOptions(TypedDict, total=False):
    """What a schedule stamps on the jobs that it fires, and how its grid runs."""

    priority: int
    expires: Seconds
    max_attempts: int
    starts_at: datetime
    catch_up: CatchUp


@dataclass(frozen=True, slots=True)
class Stamps:
    """What is stamped on a job row, so that whoever claims it later obeys the row.

    Attributes:
        visibility_timeout: How long a claim holds without a heartbeat, in seconds.
        max_attempts: How many attempts the job has.
        base_backoff: The first gap of the retry curve, in seconds.
    """

    visibility_timeout: float
    max_attempts: int
    base_backoff: float


QUEUE_DEFAULTS: Final = Stamps(visibility_timeout=300.0, max_attempts=3, base_backoff=60.0)
"""The stamps of a queue whose handle sets nothing."""

OUTBOX_STAMPS: Final = Stamps(visibility_timeout=60.0, max_attempts=5, base_backoff=5.0)
"""The fixed stamps of a queue that backs an outbox."""


@dataclass(frozen=True, slots=True)
class Enqueue:
    """Resolved enqueue options.

    Attributes:
        delay: Seconds from now until the job is claimable (0.0: at once).
        run_at: When the job is claimable, in UTC; ``None`` when *delay* decides.
        priority: Higher first.
        expires: Seconds from now after which it is no longer claimable, or ``None``.
        stamps: What is stamped on the row.
    """

    delay: float
    run_at: datetime | None
    priority: int
    expires: float | None
    stamps: Stamps


@dataclass(frozen=True, slots=True)
class ScheduleSettings:
    """Resolved schedule options; ``None`` means the target queue's derived default."""

    priority: int
    expires: float | None
    max_attempts: int | None
    starts_at: datetime | None
    catch_up: CatchUp


def resolve_queue(options: Mapping[str, Any]) -> Stamps:
    """Resolve the options of a queue handle.

    Raises:
        InvalidOption: One is unknown or impossible.
    """
    refuse_unknown(options, QueueOptions)
    return Stamps(
        visibility_timeout=_positive(
            options, "visibility_timeout", QUEUE_DEFAULTS.visibility_timeout
        ),
        max_attempts=_attempts(options, QUEUE_DEFAULTS.max_attempts),
        base_backoff=_positive(options, "base_backoff", QUEUE_DEFAULTS.base_backoff),
    )


def resolve_enqueue(options: Mapping[str, Any], stamps: Stamps) -> Enqueue:
    """Resolve the options of one enqueue against the *stamps* of its queue.

    Raises:
        InvalidOption: One is unknown or impossible, ``delay`` and ``run_at`` are both
            given, or ``expires`` ends before ``delay`` does: such a job could never be
            claimed. (``run_at`` is a time of the store clock, which nobody knows here.)
    """
    refuse_unknown(options, EnqueueOptions)
    if options.get("delay") is not None and options.get("run_at") is not None:
        msg = "delay and run_at were both given; only one of them is allowed"
        raise InvalidOption(msg)
    delay = _duration(options, "delay", seconds)
    expires = _duration(options, "expires", positive_seconds)
    if delay is not None and expires is not None and delay >= expires:
        msg = (
            f"expires must be longer than delay, both count from now; {expires:g} and {delay:g} "
            "seconds were given"
        )
        raise InvalidOption(msg)
    max_attempts = _attempts(options, stamps.max_attempts)
    if max_attempts != stamps.max_attempts:
        stamps = Stamps(
            visibility_timeout=stamps.visibility_timeout,
            max_attempts=max_attempts,
            base_backoff=stamps.base_backoff,
        )
    return Enqueue(
        delay=0.0 if delay is None else delay,
        run_at=_instant(options, "run_at"),
        priority=_priority(options),
        expires=expires,
        stamps=stamps,
    )


def resolve_schedule(options: Mapping[str, Any]) -> ScheduleSettings:
    """Resolve the options of a schedule.

    Raises:
        InvalidOption: One is unknown or impossible.
    """
    refuse_unknown(options, ScheduleOptions)
    max_attempts = options.get("max_attempts")
    return ScheduleSettings(
        priority=_priority(options),
        expires=_duration(options, "expires", positive_seconds),
        max_attempts=None if max_attempts is None else _attempts(options, 1),
        starts_at=_instant(options, "starts_at"),
        catch_up=_catch_up(options),
    )


def _duration(
    options: Mapping[str, Any], name: str, check: Callable[[object, str], float]
) -> float | None:
    value = options.get(name)
    return None if value is None else check(value, name)


def _positive(options: Mapping[str, Any], name: str, default: float) -> float:
    value = _duration(options, name, positive_seconds)
    return default if value is None else value


def _attempts(options: Mapping[str, Any], default: int) -> int:
    value = options.get("max_attempts")
    if value is None:
        return default
    return positive_int(value, "max_attempts", most=MAX_ATTEMPTS_LIMIT)


def _priority(options: Mapping[str, Any]) -> int:
    value = options.get("priority")
    if value is None:
        return 0
    if (
        not isinstance(value, int)
        or isinstance(value, bool)
        or not MIN_PRIORITY <= value <= MAX_PRIORITY
    ):
        msg = f"priority must be an int from {MIN_PRIORITY} to {MAX_PRIORITY}, not {shown(value)}"
        raise InvalidOption(msg)
    return int(value)


def _catch_up(options: Mapping[str, Any]) -> CatchUp:
    value = options.get("catch_up")
    if value is None or (isinstance(value, str) and value == "all"):
        return "all"
    if isinstance(value, str) and value == "latest":
        return "latest"
    msg = f"catch_up must be 'all' or 'latest', not {shown(value)}"
    raise InvalidOption(msg)


def _instant(options: Mapping[str, Any], name: str) -> datetime | None:
    value = options.get(name)
    return None if value is None else aware_utc(value, name)
