"""What the tests of stop tokens share."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from alkstore import StopToken

PROMPT = 0.1
"""Section 10: every blocking call returns within 100 ms of a cancellation."""


class Waker:
    """Counts its wakes."""

    def __init__(self) -> None:
        self.wakes = 0

    def unpark(self) -> None:
        self.wakes += 1


def start(target: Callable[[], object]) -> threading.Thread:
    thread = threading.Thread(target=target, daemon=True)
    thread.start()
    return thread


def waiters(token: StopToken) -> int:
    return len(token._own.waiters)


def until(happened: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 10
    while not happened():
        assert time.monotonic() < deadline
        time.sleep(0.001)
