"""The store clock of the memory engine: one owner of what time it is, and of stepping it."""

from __future__ import annotations

import os
import threading
from datetime import datetime, timedelta, timezone
from typing import Protocol, runtime_checkable

from alkstore._typing import override
from alkstore.arguments import Seconds, aware_utc, seconds
from alkstore.memory.forks import Alive
from alkstore.stop_token import Wakeable

LAST = datetime.max.replace(tzinfo=timezone.utc)
"""The last instant there is; times that would lie beyond it stay here."""


@runtime_checkable
class Clock(Protocol):
    """Tells a store what time it is. Called from many threads, and inside the store's lock."""

    def now(self) -> datetime:
        """Return the present instant, aware and in UTC."""
        ...

    def nap(self, length: float) -> float | None:
        """Return how long to sleep until the clock has gone on by *length* seconds.

        Returns:
            Real seconds; ``None``: it goes on only when it is stepped.
        """
        ...

    def attach(self, waiter: Wakeable) -> None:
        """Have *waiter* woken by each step of the clock."""
        ...

    def detach(self, waiter: Wakeable) -> None:
        """Forget *waiter*."""
        ...


class SystemClock:
    """The clock of this machine."""

    def now(self) -> datetime:
        """Return the present time."""
        return datetime.now(timezone.utc)

    def nap(self, length: float) -> float | None:
        """Return *length*: it goes on by itself."""
        return length

    def attach(self, waiter: Wakeable) -> None:
        """Do nothing: it makes no steps."""

    def detach(self, waiter: Wakeable) -> None:
        """Do nothing."""


class ManualClock:
    """A clock that stands still until it is stepped.

    Each step wakes whoever waits in a store of this clock, so that a blocked `claim_wait`,
    `lock` or `run_schedules` looks again. The time limits of waits are not its business:
    they are real seconds.

    Args:
        start: Where it stands at first, an aware datetime; ``None``: the present time.

    Raises:
        InvalidOption: *start* is no aware datetime.
    """

    def __init__(self, start: datetime | None = None) -> None:
        begin = datetime.now(timezone.utc) if start is None else start
        self._now = aware_utc(begin, "start")
        self._lock = threading.Lock()
        self._waiters: dict[int, Wakeable] = {}
        _clocks.add(self)

    def now(self) -> datetime:
        """Return where it stands."""
        return self._now

    def advance(self, by: Seconds) -> datetime:
        """Step it forward, and wake whoever waits.

        Args:
            by: Seconds or `timedelta`, at least 0.

        Returns:
            Where it stands now.

        Raises:
            InvalidOption: *by* is no duration.
        """
        length = seconds(by, "by")
        with self._lock:
            self._now = now = later(self._now, length)
        # One look-up in a dict at a time: a waiter may come or go meanwhile.
        for waiter in self._waiters.copy().values():
            waiter.unpark()
        return now

    def nap(self, length: float) -> float | None:  # noqa: ARG002 - of the trait
        """Return ``None``: only a step brings the time."""
        return None

    def attach(self, waiter: Wakeable) -> None:
        """Have *waiter* woken by each step."""
        self._waiters[id(waiter)] = waiter

    def detach(self, waiter: Wakeable) -> None:
        """Forget *waiter*."""
        self._waiters.pop(id(waiter), None)

    def after_fork(self) -> None:
        """Forget the threads of the parent: none of them is here."""
        self._lock = threading.Lock()
        self._waiters = {}

    @override
    def __repr__(self) -> str:
        """Show where it stands."""
        return f"<{type(self).__name__} at {self._now.isoformat()}>"


def later(instant: datetime, length: float) -> datetime:
    """Return the instant *length* seconds after *instant*, rounded to whole microseconds.

    Rounded half to even, and at most `LAST`.
    """
    try:
        return instant + timedelta(microseconds=round(length * 1_000_000))
    except OverflowError:
        return LAST


_clocks: Alive[ManualClock] = Alive()


def _after_fork() -> None:
    for clock in _clocks.all():
        clock.after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
