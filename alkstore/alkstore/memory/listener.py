"""Listeners: an application's own ear on some channels."""

from __future__ import annotations

import math
import time
import weakref
from collections.abc import Iterator, Sequence
from types import TracebackType

from alkstore._typing import Self
from alkstore.arguments import Seconds, wait_seconds
from alkstore.errors import InvalidOption
from alkstore.memory.access import Access
from alkstore.names import check_name
from alkstore.stop_token import Parker, StopToken, check_optional_stop
from alkstore.values import Wake


class MemoryListener:
    """Hears the wakes of some channels until it is closed.

    A wake that nobody waits for is remembered, once for each channel. Several threads may
    wait; each wake goes to one of them.

    One that is dropped without `close` is closed when it is collected: the store knows its ear
    only.

    Args:
        access: Whose wakes are heard.
        channels: The names.

    Raises:
        InvalidName: One breaks the naming rule (`ReservedName` when reserved).
        InvalidOption: None is given.
        StoreClosed: The store was closed.
    """

    def __init__(self, access: Access, channels: Sequence[str]) -> None:
        names = tuple(dict.fromkeys(check_name(one, "channel") for one in channels))
        if not names:
            msg = "a listener needs at least one channel, none was given"
            raise InvalidOption(msg)
        access.check_open()
        self._access = access
        self._ear = _Ear(access, names)
        weakref.finalize(self, self._ear.close).atexit = False

    def wait(self, timeout: Seconds | None = None, stop: StopToken | None = None) -> Wake | None:
        """Return the next wake; ``None`` when the time is up, on *stop*, or when closed."""
        limit = wait_seconds(timeout)
        stop = check_optional_stop(stop)
        deadline = math.inf if limit is None else time.monotonic() + limit
        ear = self._ear
        parker = Parker()
        ear.parkers[id(parker)] = parker
        try:
            if stop is not None:
                stop.attach(parker)
            while not (ear.closed or self._access.closed or (stop and stop.cancelled)):
                name = ear.take()
                if name is not None:
                    return Wake(name)
                left = deadline - time.monotonic()
                if left <= 0:
                    return None
                parker.park(None if left == math.inf else left)
            return None
        finally:
            ear.parkers.pop(id(parker), None)
            if stop is not None:
                stop.detach(parker)

    def __iter__(self) -> Iterator[Wake]:
        """Yield wakes until the listener, or its store, is closed."""
        while (wake := self.wait()) is not None:
            yield wake

    def close(self) -> None:
        """Stop hearing; ends the waits of other threads. May be called again."""
        self._ear.close()

    def __enter__(self) -> Self:
        """Return the listener."""
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Close it."""
        self.close()


class _Ear:
    """What a listener has heard, and who waits for it; attached to the store until it is closed."""

    def __init__(self, access: Access, channels: tuple[str, ...]) -> None:
        self._access = access
        self._channels = channels
        self._woken: dict[str, bool] = {}
        self.closed = False
        self._begin()

    def take(self) -> str | None:
        """Take the channel that has waited longest."""
        for name in self._woken.copy():
            if self._woken.pop(name, False):
                return name
        return None

    def close(self) -> None:
        """Leave the store, and end all waits."""
        self.closed = True
        for name in self._channels:
            self._access.data.wakes.detach(name, self)
        self._access.detach(self)
        self.unpark()

    def unpark(self) -> None:
        """Let whoever waits look again."""
        for parker in self.parkers.copy().values():
            parker.unpark()

    def _hear(self, name: str) -> None:
        self._woken[name] = True
        self.unpark()

    def _begin(self) -> None:
        """Hear; in the child of a fork, the wakes of the child's own tables."""
        self.parkers: dict[int, Parker] = {}
        for name in self._channels:
            self._access.data.wakes.attach(name, self, self._hear)
        self._access.attach(self, self._begin)
