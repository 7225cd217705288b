"""Listeners: an application's own ear on some channels."""

from __future__ import annotations

import math
import time
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

    Args:
        access: Whose wakes are heard.
        channels: The names.

    Raises:
        InvalidName: One breaks the naming rule (`ReservedName` when reserved).
        InvalidOption: None is given.
        StoreClosed: The store was closed.
    """

    def __init__(self, access: Access, channels: Sequence[str]) -> None:
        self._channels = tuple(dict.fromkeys(check_name(one, "channel") for one in channels))
        if not self._channels:
            msg = "a listener needs at least one channel, none was given"
            raise InvalidOption(msg)
        access.check_open()
        self._access = access
        self._woken: dict[str, bool] = {}
        self._closed = False
        self._begin()

    def wait(self, timeout: Seconds | None = None, stop: StopToken | None = None) -> Wake | None:
        """Return the next wake; ``None`` when the time is up, on *stop*, or when closed."""
        limit = wait_seconds(timeout)
        stop = check_optional_stop(stop)
        deadline = math.inf if limit is None else time.monotonic() + limit
        parker = Parker()
        self._parkers[id(parker)] = parker
        try:
            if stop is not None:
                stop.attach(parker)
            while not (self._closed or self._access.closed or (stop and stop.cancelled)):
                name = self._take()
                if name is not None:
                    return Wake(name)
                left = deadline - time.monotonic()
                if left <= 0:
                    return None
                parker.park(None if left == math.inf else left)
            return None
        finally:
            self._parkers.pop(id(parker), None)
            if stop is not None:
                stop.detach(parker)

    def __iter__(self) -> Iterator[Wake]:
        """Yield wakes until the listener, or its store, is closed."""
        while (wake := self.wait()) is not None:
            yield wake

    def close(self) -> None:
        """Stop hearing; ends the waits of other threads. May be called again."""
        self._closed = True
        for name in self._channels:
            self._access.data.wakes.detach(name, self)
        self._access.detach(self)
        self.unpark()

    def unpark(self) -> None:
        """Let whoever waits look again."""
        for parker in self._parkers.copy().values():
            parker.unpark()

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

    def _hear(self, name: str) -> None:
        self._woken[name] = True
        self.unpark()

    def _take(self) -> str | None:
        """Take the channel that has waited longest."""
        for name in self._woken.copy():
            if self._woken.pop(name, False):
                return name
        return None

    def _begin(self) -> None:
        """Hear; in the child of a fork, the wakes of the child's own tables."""
        self._parkers: dict[int, Parker] = {}
        for name in self._channels:
            self._access.data.wakes.attach(name, self, self._hear)
        self._access.attach(self, self._begin)
