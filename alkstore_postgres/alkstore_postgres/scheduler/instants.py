"""Instants as integers: microseconds since the epoch, in which grids are computed.

Python's and PostgreSQL's times both count whole microseconds, so the way there and back
is exact. Nothing here reads a clock.
"""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

MICROS_PER_SECOND = 1_000_000

_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
_MICROSECOND = timedelta(microseconds=1)
_FIRST = datetime.min.replace(tzinfo=timezone.utc)
_LAST = datetime.max.replace(tzinfo=timezone.utc)


def to_micros(instant: datetime) -> int:
    """Return an aware datetime as microseconds since the epoch."""
    return (instant - _EPOCH) // _MICROSECOND


def from_micros(micros: int) -> datetime:
    """Return microseconds since the epoch as a datetime in UTC.

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


LAST_MICROS = to_micros(_LAST) - 1
"""The last instant that `is_sound`."""
