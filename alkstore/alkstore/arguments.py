"""What one argument may be: checks that every entry point makes before anything else.

Each returns the value in plain units (seconds, counts, datetimes in UTC) or refuses it with
`InvalidOption`, in a message that says what is allowed and shows only plain scalars.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from typing import Any, Final

from alkstore.errors import InvalidOption
from alkstore.values import DeadJob

Seconds = float | timedelta
"""A duration: seconds as a number, or a `timedelta`."""

MAX_SECONDS: Final = 36_500 * 86_400.0
"""The longest duration that any option takes (36,500 days)."""

LARGEST_ID: Final = 2**63 - 1
"""The largest id of a job."""

_NO_COLLECTIONS: Final = (str, bytes, bytearray, memoryview, Mapping)

SHORTEST: Final = 0.001
"""The shortest duration where one of zero makes no sense, in seconds."""


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
        msg = f"{name} must be a number of seconds or a timedelta, not {shown(value)}"
        raise InvalidOption(msg)
    if not 0 <= number <= MAX_SECONDS:  # NaN fails as well
        msg = f"{name} must be between 0 and {MAX_SECONDS:.0f} seconds, not {shown(value)}"
        raise InvalidOption(msg)
    return number


def positive_seconds(value: object, name: str) -> float:
    """Return a duration in seconds of at least a millisecond.

    Raises:
        InvalidOption: As `seconds`, or it is shorter than a millisecond.
    """
    number = seconds(value, name)
    if number < SHORTEST:
        msg = f"{name} must be at least {SHORTEST} seconds, not {shown(value)}"
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
        msg = f"{name} must be an int from 1 to {most}, not {shown(value)}"
        raise InvalidOption(msg)
    return int(value)


def true_or_false(value: object, name: str) -> bool:
    """Return a ``bool``; nothing else is taken for one.

    Raises:
        InvalidOption: It is neither ``True`` nor ``False``.
    """
    if not isinstance(value, bool):
        msg = f"{name} must be True or False, not {shown(value)}"
        raise InvalidOption(msg)
    return value


def listed(values: object, name: str) -> list[Any]:
    """Return the items of an iterable.

    Raises:
        InvalidOption: *values* cannot be iterated over, or it is text, bytes or a mapping: who
            gives one of these means one item, or the mapping's values.
    """
    if not isinstance(values, Iterable) or isinstance(values, _NO_COLLECTIONS):
        # Only its type is told: it may be a payload.
        msg = (
            f"{name} must be iterable, a list for example, but no text, bytes or mapping; "
            f"given was a {type(values).__name__} (one item goes into a list)"
        )
        raise InvalidOption(msg)
    return list(values)


def not_a_handle(value: object, queue: str) -> InvalidOption:
    """Return the refusal of what is no job handle of this engine; only its type is told.

    Who means the handles and gives their payloads must not read those in a log.
    """
    return InvalidOption(f"a handle of the queue {queue!a} is needed, not a {type(value).__name__}")


def aware_utc(value: object, name: str) -> datetime:
    """Return an aware datetime in UTC.

    Raises:
        InvalidOption: It is not a datetime, has no zone, or does not exist in UTC.
    """
    if not isinstance(value, datetime):
        msg = f"{name} must be an aware datetime, not {shown(value)}"
        raise InvalidOption(msg)
    if value.utcoffset() is None:
        msg = f"{name} must be an aware datetime, a naive one was given: attach a time zone"
        raise InvalidOption(msg)
    try:
        return value.astimezone(timezone.utc)
    except (OverflowError, ValueError) as error:
        msg = f"{name} lies outside the years 1 to 9999 in UTC"
        raise InvalidOption(msg) from error


def dead_place(after: object) -> DeadJob | None:
    """Return *after*, behind which a page of dead letters begins, its time in UTC.

    Raises:
        InvalidOption: It is neither ``None`` nor a `DeadJob`, or one whose ``id`` or
            ``died_at`` no dead letter has.
    """
    if after is None:
        return None
    if not isinstance(after, DeadJob):
        msg = f"after must be the last DeadJob of the page before, not {shown(after)}"
        raise InvalidOption(msg)
    return replace(
        after,
        id=positive_int(after.id, "the id of after", most=LARGEST_ID),
        died_at=aware_utc(after.died_at, "the died_at of after"),
    )


def refuse_unknown(options: Mapping[str, Any], known: type) -> None:
    """Refuse options that the `TypedDict` *known* does not have.

    Raises:
        InvalidOption: There is such an option; the message names the allowed ones.
    """
    unknown = [name for name in options if name not in known.__annotations__]
    if unknown:
        allowed = ", ".join(sorted(known.__annotations__))
        msg = f"unknown option {shown(unknown[0])}; allowed here: {allowed}"
        raise InvalidOption(msg)


def shown(value: object) -> str:
    """Return *value* short and in ASCII; only plain scalars show their value."""
    if value is None or isinstance(value, (bool, float, str, timedelta)):
        return ascii(value)[:60]
    if isinstance(value, int):
        return str(value) if abs(value) < 10**18 else "a very large int"
    return f"a {type(value).__name__}"
