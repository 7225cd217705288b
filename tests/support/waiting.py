"""Waiting for something that will be so soon."""

from __future__ import annotations

import time
from collections.abc import Callable


def wait_until(condition: Callable[[], object], timeout: float = 10.0) -> None:
    """Return as soon as *condition* holds; fail when it does not within *timeout* seconds."""
    deadline = time.monotonic() + timeout
    while not condition():
        assert time.monotonic() < deadline, "it did not come to be in time"
        time.sleep(0.005)
