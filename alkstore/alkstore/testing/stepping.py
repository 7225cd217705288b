"""Firing schedules by stepping time."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Protocol, runtime_checkable

from alkstore.arguments import Seconds, seconds
from alkstore.traits import Scheduler
from alkstore.values import Schedule


@runtime_checkable
class Ticks(Protocol):
    """A store that can be told to fire what is due."""

    def tick(self) -> int:
        """Fire everything that is due now; return how many jobs that were."""
        ...


@runtime_checkable
class SteppableClock(Protocol):
    """A store clock that a test steps, `alkstore.memory.ManualClock` for one."""

    def now(self) -> datetime:
        """Return the present instant, aware."""
        ...

    def advance(self, by: Seconds) -> datetime:
        """Step forward."""
        ...


def fire_due(store: Scheduler, *, by: Seconds | None = None) -> int:
    """Fire the schedules of *store* that are due, in this thread, whoever leads.

    With *by* the store clock is stepped: from boundary to boundary, so that each one fires
    in its own time, as it would have under a leader, and then to the end. After a single
    long step all that was passed over would count as missed, and be subject to the cap and to
    ``catch_up``.

    Each boundary costs a tick and a reading of all schedules.

    Args:
        store: A store with ``tick()``: the memory engine's or PostgreSQL's.
        by: Seconds or `timedelta` to step the clock by; the store must have a clock that can be
            stepped (``MemoryStore(clock=ManualClock())``). ``None``: fire what is due now.
            Past the year 9999 the calendar ends.

    Returns:
        How many jobs were fired here: a scheduler of the store that runs meanwhile may fire some.

    Raises:
        TypeError: The store cannot do this; nothing was fired.
        InvalidOption: *by* is no duration; nothing was fired.
    """
    if not isinstance(store, Ticks):
        raise TypeError(f"a store with tick() is needed; {type(store).__name__} has none")
    if by is None:
        return store.tick()
    length = timedelta(seconds=seconds(by, "by"))
    clock = getattr(store, "clock", None)
    if not isinstance(clock, SteppableClock):
        raise TypeError("the clock of this store cannot be stepped: give it a ManualClock")
    end = _later(clock.now(), length)
    fired = store.tick()
    while True:
        following = min(filter(None, map(_following, store.schedules())), default=end)
        now = clock.now()
        clock.advance(max(min(following, end) - now, timedelta(0)))
        fired += store.tick()
        if following >= end:
            return fired


def _later(now: datetime, length: timedelta) -> datetime:
    try:
        return now + length
    except OverflowError:  # the end of the calendar
        return datetime.max.replace(tzinfo=now.tzinfo)


def _following(schedule: Schedule) -> datetime | None:
    """Return when *schedule* fires next, if it does."""
    return None if schedule.paused or schedule.quarantine is not None else schedule.next_fire_at
