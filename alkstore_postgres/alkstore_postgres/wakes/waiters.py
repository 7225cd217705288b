"""Who waits for which name."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable

Sink = Callable[[str], None]
"""Called with a name that was woken. It must not block."""

_QUIET = 60.0

logger = logging.getLogger(__name__)


class Waiters:
    """Sinks by name.

    The tuples are replaced, never changed: the listening thread reads them without a lock.
    Changes take a lock that the same thread may take twice, so that a signal handler which
    interrupts one of them can make another.
    """

    def __init__(self) -> None:
        self._sinks: dict[str, tuple[Sink, ...]] = {}
        self._lock = threading.RLock()
        self._complained: float | None = None

    def add(self, name: str, sink: Sink) -> None:
        """Have *sink* called for the wakes of *name*, once for each time it was added."""
        with self._lock:
            self._sinks[name] = (*self._sinks.get(name, ()), sink)

    def remove(self, name: str, sink: Sink) -> None:
        """Undo one `add`; one that was never made is ignored."""
        with self._lock:
            sinks = list(self._sinks.get(name, ()))
            if sink in sinks:
                sinks.remove(sink)
            if sinks:
                self._sinks[name] = tuple(sinks)
            else:
                self._sinks.pop(name, None)

    def wake(self, name: str) -> None:
        """Call the sinks of *name*."""
        for sink in self._sinks.get(name, ()):
            try:
                sink(name)
            except Exception:
                if self._may_complain():
                    logger.exception("a waiter for %r failed to take its wake", name)

    def wake_all(self) -> None:
        """Call every sink: something may have happened that nobody heard of."""
        for name in tuple(self._sinks):
            self.wake(name)

    def _may_complain(self) -> bool:
        now = time.monotonic()
        last = self._complained
        if last is not None and now - last < _QUIET:
            return False
        self._complained = now
        return True
