"""Instants as integers: microseconds since 2000, in which grids are computed.

PostgreSQL counts times so, and Python's are whole microseconds too: the way there and back is
exact. Nothing here reads a clock.
"""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

MICROS_PER_SECOND = 1_000_000

_EPOCH = datetime(2000, 1, 1, tzinfo=timezone.utc)
_MICROSECOND = timedelta(microseconds=1)
_FIRST = datetime.min.replace(tzinfo=timezone.utc)
_LAST = datetime.max.replace(tzinfo=timezone.utc)


def to_micros(instant: datetime) -> int:
    """Return an aware datetime as microseconds since 2000."""
    return (instant - _EPOCH) // _MICROSECOND


def from_micros(micros: int) -> datetime:
    """Return microseconds since 2000 as a datetime in UTC.

    Raises:
        OverflowError: It lies outside the years 1 to 9999.
    """
    return _EPOCH + timedelta(microseconds=micros)


def is_sound(instant: datetime | None) -> bool:
    """Return whether a time that was read from a row is one that can be computed with.

    NULL is not, and the first and the last datetime there are stand for what Python
    cannot tell: infinities, and years outside 1 to 9999.
    """
    return instant is not None and _FIRST < instant < _LAST


FIRST_MICROS = to_micros(_FIRST) + 1
"""The first instant that `is_sound`."""

LAST_MICROS = to_micros(_LAST) - 1
"""The last instant that `is_sound`."""


def in_calendar(micros: int) -> bool:
    """Return whether an instant can be told as a datetime, as `is_sound` says of those."""
    return FIRST_MICROS <= micros <= LAST_MICROS
