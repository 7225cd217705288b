"""Who waits for which name."""

from __future__ import annotations

import logging
import random
import threading
from collections.abc import Callable

from alkstore.runners.say import say
from alkstore_postgres.database.ration import Ration

Sink = Callable[[str], None]
"""Called with a name that was woken. It must not block."""

logger = logging.getLogger(__name__)


class Waiters:
    """Sinks by name.

    Some want every wake. Shared ones stand for workers of which any will do: a wake goes
    to one of them, who passes it on when there is more to do, so that one job does not set
    a whole herd off.

    The tuples are replaced, never changed: the listening thread reads them without a lock.
    Changes take a lock that the same thread may take twice, so that a signal handler which
    interrupts one of them can make another.

    Attributes:
        somebody: Whether there is anybody.
    """

    def __init__(self) -> None:
        self._sinks: dict[str, tuple[Sink, ...]] = {}
        self._shared: dict[str, tuple[Sink, ...]] = {}
        self._lock = threading.RLock()
        self._complaints = Ration()
        self.somebody = False

    def add(self, name: str, sink: Sink, *, shared: bool = False) -> None:
        """Have *sink* called for the wakes of *name*, once for each time it was added."""
        kind = self._shared if shared else self._sinks
        with self._lock:
            kind[name] = (*kind.get(name, ()), sink)
            self.somebody = True

    def remove(self, name: str, sink: Sink) -> None:
        """Undo one `add`; one that was never made is ignored."""
        with self._lock:
            for kind in (self._sinks, self._shared):
                sinks = list(kind.get(name, ()))
                if sink not in sinks:
                    continue
                sinks.remove(sink)
                if sinks:
                    kind[name] = tuple(sinks)
                else:
                    del kind[name]
                if not (self._sinks or self._shared):
                    self.somebody = False
                if self._sinks or self._shared:  # a signal handler has added one at this moment
                    self.somebody = True
                return

    def count(self, name: str) -> int:
        """Return how many shared sinks *name* has."""
        return len(self._shared.get(name, ()))

    def wake(self, name: str) -> None:
        """Call the sinks of *name*, and one of its shared ones."""
        if sinks := self._sinks.get(name):
            self._call(name, sinks)
        if name in self._shared:
            self.pass_on(name)

    def pass_on(self, name: str) -> None:
        """Call one of the shared sinks of *name*.

        One that is not there any more after its call may have left before that, without its wake:
        then another one gets it. It would have passed on one that came in time.
        """
        while shared := self._shared.get(name):
            chosen = random.choice(shared)  # noqa: S311 - any of them
            self._call(name, (chosen,))
            if chosen in self._shared.get(name, ()):
                return

    def wake_all(self) -> None:
        """Call every sink: something may have happened that nobody heard of."""
        for kind in (self._sinks, self._shared):
            for name, sinks in kind.copy().items():
                self._call(name, sinks)

    def _call(self, name: str, sinks: tuple[Sink, ...]) -> None:
        for sink in sinks:
            try:
                sink(name)
            except Exception as error:  # noqa: BLE001 - harms nobody else
                if self._complaints.take():
                    text = "a waiter for %r failed to take its wake"
                    say(logger, logging.ERROR, text, name, error=error)
