"""Options: their types, their defaults, and one function for each way they resolve.

Options are keyword arguments. Each entry point takes a `TypedDict` unpacked into its
signature and hands what it got to the resolver of that kind, which refuses what is
unknown or impossible (`InvalidOption`) before anything touches a database, and returns a
frozen value with plain units: seconds, counts and aware datetimes. An option that is
``None`` counts as not given.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from typing import Any, Final, Literal, TypedDict

from alkstore.errors import InvalidOption

Seconds = float | timedelta
"""A duration: seconds as a number, or a `timedelta`."""

MAX_SECONDS: Final = 36_500 * 86_400.0
"""The longest duration that any option takes (36,500 days)."""

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
        InvalidOption: One is unknown or impossible, or ``delay`` and ``run_at`` are
            both given.
    """
    refuse_unknown(options, EnqueueOptions)
    if options.get("delay") is not None and options.get("run_at") is not None:
        msg = "delay and run_at were both given; only one of them is allowed"
        raise InvalidOption(msg)
    delay = options.get("delay")
    expires = options.get("expires")
    max_attempts = _attempts(options, stamps.max_attempts)
    if max_attempts != stamps.max_attempts:
        stamps = Stamps(
            visibility_timeout=stamps.visibility_timeout,
            max_attempts=max_attempts,
            base_backoff=stamps.base_backoff,
        )
    return Enqueue(
        delay=0.0 if delay is None else seconds(delay, "delay"),
        run_at=_instant(options, "run_at"),
        priority=_priority(options),
        expires=None if expires is None else positive_seconds(expires, "expires"),
        stamps=stamps,
    )


def resolve_schedule(options: Mapping[str, Any]) -> ScheduleSettings:
    """Resolve the options of a schedule.

    Raises:
        InvalidOption: One is unknown or impossible.
    """
    refuse_unknown(options, ScheduleOptions)
    expires = options.get("expires")
    max_attempts = options.get("max_attempts")
    return ScheduleSettings(
        priority=_priority(options),
        expires=None if expires is None else positive_seconds(expires, "expires"),
        max_attempts=None if max_attempts is None else _attempts(options, 1),
        starts_at=_instant(options, "starts_at"),
        catch_up=_catch_up(options),
    )


def seconds(value: object, name: str) -> float:
    """Return a duration in seconds, at least 0 and at most `MAX_SECONDS`.

    Args:
        value: A real number of seconds or a `timedelta`.
        name: The option's name, for the error message.

    Raises:
        InvalidOption: It is neither, not finite, negative or too long.
    """
    if isinstance(value, timedelta):
        number = value.total_seconds()
    elif isinstance(value, (int, float)) and not isinstance(value, bool):
        # A huge int does not fit a float; the cap is compared first.
        number = float(value) if abs(value) <= MAX_SECONDS else math.inf
    else:
        msg = f"{name} must be a number of seconds or a timedelta, not {_shown(value)}"
        raise InvalidOption(msg)
    if not 0 <= number <= MAX_SECONDS:  # NaN fails as well
        msg = f"{name} must be between 0 and {MAX_SECONDS:.0f} seconds, not {_shown(value)}"
        raise InvalidOption(msg)
    return number


def positive_seconds(value: object, name: str) -> float:
    """Return a duration in seconds of at least a millisecond.

    Raises:
        InvalidOption: As `seconds`, or it is shorter than a millisecond.
    """
    number = seconds(value, name)
    if number < _SHORTEST:
        msg = f"{name} must be at least {_SHORTEST} seconds, not {_shown(value)}"
        raise InvalidOption(msg)
    return number


def wait_seconds(value: object, name: str = "timeout") -> float | None:
    """Return a time limit in seconds, or ``None`` for no limit.

    Raises:
        InvalidOption: It is neither ``None`` nor a duration.
    """
    return None if value is None else seconds(value, name)


def positive_int(value: object, name: str, *, most: int = 1_000_000) -> int:
    """Return an ``int`` from 1 to *most*.

    Raises:
        InvalidOption: It is not an ``int`` or out of range.
    """
    if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= most:
        msg = f"{name} must be an int from 1 to {most}, not {_shown(value)}"
        raise InvalidOption(msg)
    return int(value)


def listed(values: object, name: str) -> list[Any]:
    """Return the items of an iterable.

    Raises:
        InvalidOption: *values* cannot be iterated over.
    """
    if not isinstance(values, Iterable):
        msg = f"{name} must be iterable, not {_shown(values)}"
        raise InvalidOption(msg)
    return list(values)


def aware_utc(value: object, name: str) -> datetime:
    """Return an aware datetime in UTC.

    Raises:
        InvalidOption: It is not a datetime, has no zone, or does not exist in UTC.
    """
    if not isinstance(value, datetime):
        msg = f"{name} must be an aware datetime, not {_shown(value)}"
        raise InvalidOption(msg)
    if value.utcoffset() is None:
        msg = f"{name} must be an aware datetime, a naive one was given: attach a time zone"
        raise InvalidOption(msg)
    try:
        return value.astimezone(timezone.utc)
    except (OverflowError, ValueError) as error:
        msg = f"{name} lies outside the years 1 to 9999 in UTC"
        raise InvalidOption(msg) from error


def refuse_unknown(options: Mapping[str, Any], known: type) -> None:
    """Refuse options that the `TypedDict` *known* does not have.

    Raises:
        InvalidOption: There is such an option; the message names the allowed ones.
    """
    unknown = [name for name in options if name not in known.__annotations__]
    if unknown:
        allowed = ", ".join(sorted(known.__annotations__))
        msg = f"unknown option {_shown(unknown[0])}; allowed here: {allowed}"
        raise InvalidOption(msg)


_SHORTEST = 0.001


def _positive(options: Mapping[str, Any], name: str, default: float) -> float:
    value = options.get(name)
    return default if value is None else positive_seconds(value, name)


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
        msg = f"priority must be an int from {MIN_PRIORITY} to {MAX_PRIORITY}, not {_shown(value)}"
        raise InvalidOption(msg)
    return int(value)


def _catch_up(options: Mapping[str, Any]) -> CatchUp:
    value = options.get("catch_up")
    if value is None or (isinstance(value, str) and value == "all"):
        return "all"
    if isinstance(value, str) and value == "latest":
        return "latest"
    msg = f"catch_up must be 'all' or 'latest', not {_shown(value)}"
    raise InvalidOption(msg)


def _instant(options: Mapping[str, Any], name: str) -> datetime | None:
    value = options.get(name)
    return None if value is None else aware_utc(value, name)


def _shown(value: object) -> str:
    """Return *value* short and in ASCII; only plain scalars show their value."""
    if value is None or isinstance(value, (bool, float, str, timedelta)):
        return ascii(value)[:60]
    if isinstance(value, int):
        return str(value) if abs(value) < 10**18 else "a very large int"
    return f"a {type(value).__name__}"
