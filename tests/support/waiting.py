"""Waiting for something that will be so soon."""

from __future__ import annotations

import time
from collections.abc import Callable

_NAP = 0.005

_LONGEST_TURN = 0.25
"""A look and the nap after it count as so many seconds at the most: where they take longer, the
machine did not let us run, and so nobody of this process had the rest of that time."""


def wait_until(condition: Callable[[], object], timeout: float = 10.0) -> None:
    """Return as soon as *condition* holds; fail when it does not within *timeout* seconds."""
    left = timeout
    before = time.monotonic()
    while not condition():
        assert left > 0, "it did not come to be in time"
        time.sleep(_NAP)
        now = time.monotonic()
        left -= min(now - before, _LONGEST_TURN)
        before = now


def rest(seconds: float) -> None:
    """Sleep for so many seconds in which the others of this process can run, too."""
    left = seconds
    while left > 0:
        time.sleep(min(left, _NAP))
        left -= _NAP
