"""Boundary math: which boundaries of a grid are due, and which one comes next.

A grid is ``boundary + k * interval`` for every whole *k*. All times and intervals are
integer microseconds: nothing drifts, nothing overflows, and no clock is read here.
"""

from __future__ import annotations

from typing import NamedTuple

from alkstore_postgres.scheduler.instants import LAST_MICROS

MAX_CATCH_UP = 64
"""How many boundaries of one schedule a tick fires at most."""


class NoBoundaryLeft(Exception):
    """The next boundary would lie after the year 9999."""


class Due(NamedTuple):
    """What a tick owes one schedule.

    Attributes:
        fires: The boundaries to fire, oldest first.
        next_boundary: The first boundary of the grid strictly after now.
        skipped: How many due boundaries are passed over for good.
    """

    fires: tuple[int, ...]
    next_boundary: int
    skipped: int


def first_after(boundary: int, interval: int, now: int) -> int:
    """Return the first boundary of the grid, not before *boundary*, strictly after *now*.

    Raises:
        NoBoundaryLeft: It would lie after the year 9999.
    """
    if boundary <= now:
        boundary += ((now - boundary) // interval + 1) * interval
    if boundary > LAST_MICROS:
        raise NoBoundaryLeft
    return boundary


def due(boundary: int, interval: int, now: int, *, latest: bool) -> Due:
    """Return what is to be fired at *now* for the grid whose next boundary is *boundary*.

    Every boundary from *boundary* to *now*, oldest first, `MAX_CATCH_UP` at most; the
    rest is skipped.

    Args:
        boundary: The first boundary that has not fired.
        interval: The distance of the boundaries, at least 1.
        now: The store clock.
        latest: Fire only the newest of them, and skip the others.

    Raises:
        NoBoundaryLeft: The next boundary would lie after the year 9999.
    """
    next_boundary = first_after(boundary, interval, now)
    count = (next_boundary - boundary) // interval
    if latest:
        fires: tuple[int, ...] = (next_boundary - interval,) if count else ()
    else:
        end = boundary + min(count, MAX_CATCH_UP) * interval
        fires = tuple(range(boundary, end, interval))
    return Due(fires, next_boundary, count - len(fires))


def new_grid(interval: int, starts_at: int | None, now: int) -> int:
    """Return the first boundary of a grid that is registered at *now*.

    Without an anchor it is one interval from now; an anchor in the future is itself the
    first boundary. Nothing before the registration is made up for: with an anchor in the
    past it is the first boundary of the anchor's grid strictly after *now*.

    Raises:
        NoBoundaryLeft: It would lie after the year 9999.
    """
    return first_after(now if starts_at is None else starts_at, interval, now)
