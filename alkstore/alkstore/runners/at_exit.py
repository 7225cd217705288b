"""The interpreter's exit: whatever still runs is stopped, quietly and soon."""

from __future__ import annotations

import atexit
import time
import weakref
from typing import Protocol

GRACE = 0.3
"""How long handlers may go on after the interpreter began to exit, in seconds."""

_LIMIT = 0.7
"""How long the exit waits for the runners altogether, in seconds."""


class Stoppable(Protocol):
    """What can be stopped at exit."""

    def ask_to_end(self, grace: float) -> None:
        """Begin to end; what still runs is given up after *grace* seconds."""
        ...

    def wind_up(self, timeout: float) -> bool:
        """Wait for up to *timeout* seconds until nothing is in hand any more."""
        ...


_running: weakref.WeakSet[Stoppable] = weakref.WeakSet()


def stop_at_exit(runner: Stoppable) -> None:
    """Stop *runner* when the interpreter exits, unless it is gone by then."""
    _running.add(runner)


def stop_all() -> None:
    """Stop every runner of this process within a second."""
    runners = list(_running)
    for runner in runners:
        runner.ask_to_end(GRACE)
    deadline = time.monotonic() + _LIMIT
    for runner in runners:
        runner.wind_up(max(deadline - time.monotonic(), 0.0))


atexit.register(stop_all)
