"""The memory engine's own boundary math: it counts one boundary after the other.

Only what no cap reaches is jumped over: a schedule of one second that was away for a year has
31 million boundaries behind it. After `PATIENCE` steps the rest but one is taken in one leap,
and the last step is made on foot again.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone

from alkstore.memory.clock import LAST

CATCH_UP = 64
"""How many boundaries of one schedule a tick fires at most."""

PATIENCE = 10_000
"""How many boundaries are counted one by one."""

FIRST = datetime.min.replace(tzinfo=timezone.utc)


class EndOfCalendarError(Exception):
    """The next boundary would lie after the year 9999."""


@dataclass(slots=True)
class Owed:
    """What a tick owes a schedule.

    Attributes:
        fires: The boundaries to fire, oldest first.
        skipped: How many boundaries are passed over.
        goes_on: The first boundary after now.
    """

    goes_on: datetime
    fires: list[datetime] = field(default_factory=list)
    skipped: int = 0


def is_usable(instant: datetime | None) -> bool:
    """Whether a boundary can be computed with.

    It is there, has a time zone, and is not at an edge of the calendar.
    """
    if not isinstance(instant, datetime) or instant.utcoffset() is None:
        return False
    return FIRST < instant < LAST


def next_after(boundary: datetime, interval: timedelta, now: datetime) -> datetime:
    """Return the first boundary, not before *boundary*, that lies after *now*.

    Raises:
        EndOfCalendarError: It would lie after the year 9999.
    """
    return owed(boundary, interval, now, latest=True).goes_on


def owed(boundary: datetime, interval: timedelta, now: datetime, *, latest: bool) -> Owed:
    """Return what is to be fired at *now* of a grid whose next boundary is *boundary*.

    Args:
        boundary: The first boundary that has not fired.
        interval: The distance of the boundaries.
        now: The store clock.
        latest: Fire only the newest, and skip the others.

    Raises:
        EndOfCalendarError: The next boundary would lie after the year 9999.
    """
    result = Owed(boundary)
    steps = 0
    while result.goes_on <= now:
        steps += 1
        if steps > PATIENCE:
            leap = (now - result.goes_on) // interval - 1
            if leap > 0:
                result.skipped += leap
                result.goes_on += leap * interval
        if latest:
            result.skipped += len(result.fires)
            result.fires = [result.goes_on]
        elif len(result.fires) < CATCH_UP:
            result.fires.append(result.goes_on)
        else:
            result.skipped += 1
        result.goes_on = _step(result.goes_on, interval)
    if not is_usable(result.goes_on):
        raise EndOfCalendarError
    return result


def _step(boundary: datetime, interval: timedelta) -> datetime:
    try:
        return boundary + interval
    except OverflowError:
        raise EndOfCalendarError from None
