"""Waiting for something that will be so soon."""

from __future__ import annotations

import time
from collections.abc import Callable

_NAP = 0.005

_LONGEST_NAP = 0.25
"""A nap counts as so many seconds at the most: where it takes longer, the machine did not let us
run, and so nobody of this process had the rest of that time."""


def wait_until(condition: Callable[[], object], timeout: float = 10.0) -> None:
    """Return as soon as *condition* holds; fail when it does not within *timeout* seconds.

    A look counts in full, however long it takes: it may wait for what is tested.
    """
    left = timeout
    before = time.monotonic()
    while not condition():
        assert left > 0, "it did not come to be in time"
        looked = time.monotonic()
        time.sleep(_NAP)
        now = time.monotonic()
        left -= looked - before + min(now - looked, _LONGEST_NAP)
        before = now


def rest(seconds: float) -> None:
    """Sleep for so many seconds in which the others of this process can run, too."""
    left = seconds
    while left > 0:
        time.sleep(min(left, _NAP))
        left -= _NAP
