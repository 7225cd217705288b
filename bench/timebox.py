"""A limit for what takes too long: the rest of a run still tells something."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class TimeIsUp(Exception):
    """The time of a box is over."""


@contextmanager
def timebox(seconds: float) -> Iterator[None]:
    """End the block after so many seconds; in the main thread only, and not nested.

    Raises:
        TimeIsUp: It was not done by then.
    """

    def over(_signal: int, _frame: FrameType | None) -> None:
        msg = f"not done in {seconds:g} s"
        raise TimeIsUp(msg)

    former = signal.signal(signal.SIGALRM, over)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, former)


class Budget:
    """The time that a scenario may take, for those that go through sizes.

    Args:
        seconds: How much.
    """

    def __init__(self, seconds: float) -> None:
        self._until = time.monotonic() + seconds

    def allows(self, seconds: float) -> bool:
        """Whether something that will take about *seconds* may still begin."""
        return time.monotonic() + seconds <= self._until
