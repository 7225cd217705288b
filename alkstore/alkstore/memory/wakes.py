"""Who hears which name."""

from __future__ import annotations

from collections.abc import Callable

Sink = Callable[[str], None]
"""Called with a name that was woken, inside the store's lock; it must not block."""


class Wakes:
    """Sinks by name. Every one of a name is called for each of its wakes.

    One flat dict that is only read and written in single operations: no lock is needed, so
    none can be held by what a signal handler interrupted.
    """

    def __init__(self) -> None:
        self._sinks: dict[tuple[str, int], Sink] = {}

    def attach(self, name: str, key: object, sink: Sink) -> None:
        """Have *sink* called for the wakes of *name* until *key* is detached from it."""
        self._sinks[name, id(key)] = sink

    def detach(self, name: str, key: object) -> None:
        """Undo `attach`; nothing happens when it was not made."""
        self._sinks.pop((name, id(key)), None)

    def wake(self, name: str) -> None:
        """Call all sinks of *name*."""
        for (woken, _), sink in self._sinks.copy().items():
            if woken == name:
                sink(name)
