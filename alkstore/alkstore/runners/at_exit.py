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


# What CPython says from 3.12 on when it is too late to start a thread (or to fork a process). Up to
# 3.12.2 it was too late once the main thread had come to its end, before the functions of `atexit`
# run; since 3.12.3 that comes after them.
_TOO_LATE = "at interpreter shutdown"


def is_too_late(error: BaseException) -> bool:
    """Return whether *error* says that the interpreter is ending and starts nothing any more."""
    seen: BaseException | None = error
    while seen is not None:
        if isinstance(seen, RuntimeError) and str(seen).endswith(_TOO_LATE):
            return True
        seen = seen.__cause__ or seen.__context__
    return False


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
