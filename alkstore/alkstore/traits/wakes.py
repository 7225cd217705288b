"""Listeners: who wants to hear that something happened on a channel."""

from __future__ import annotations

from collections.abc import Iterator
from types import TracebackType
from typing import Protocol

from alkstore._typing import Self
from alkstore.arguments import Seconds
from alkstore.stop_token import StopToken
from alkstore.values import Wake


class Listener(Protocol):
    """Hears the wakes of some channels until it is closed.

    Wakes are hints: they may be merged, lost or early. Whoever waits re-reads the truth
    after each, and from time to time without one. After a lost connection came back,
    every listener gets a wake for each of its channels.
    """

    def wait(self, timeout: Seconds | None = None, stop: StopToken | None = None) -> Wake | None:
        """Wait for the next wake.

        Args:
            timeout: Seconds or `timedelta` to wait at most; ``None``: no limit.
            stop: Ends the wait within 100 ms.

        Returns:
            The wake; ``None`` when the time is up, on *stop*, or when the listener or its
            store was closed.

        Raises:
            InvalidOption: *timeout* is not a duration, or *stop* no stop token.
        """
        ...

    def __iter__(self) -> Iterator[Wake]:
        """Yield wakes until the listener, or its store, is closed."""
        ...

    def close(self) -> None:
        """Stop hearing; ends the waits of other threads. May be called again."""
        ...

    def __enter__(self) -> Self:
        """Return the listener."""
        ...

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Close it."""
        ...
