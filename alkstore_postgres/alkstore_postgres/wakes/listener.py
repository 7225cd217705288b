"""Listeners: an application's own ear on some channels."""

from __future__ import annotations

import os
import time
import weakref
from collections.abc import Iterator, Sequence
from types import TracebackType
from typing import Final

from alkstore._typing import Self
from alkstore.arguments import Seconds, wait_seconds
from alkstore.errors import InvalidOption
from alkstore.names import check_name
from alkstore.stop_token import Parker, StopToken, check_optional_stop
from alkstore.values import Wake
from alkstore_postgres.wakes.hub import WakeHub

CONNECT_LIMIT: Final = 2.0
"""How long `listen` waits for the first connection, in seconds."""

_LOOK_EVERY = 5.0
"""How often a listener that waits makes sure that the hub listens, in seconds."""


def check_channels(channels: Sequence[object]) -> tuple[str, ...]:
    """Return the names of *channels*, each once.

    Raises:
        InvalidName: One breaks the naming rule (`ReservedName` when reserved).
        InvalidOption: None is given.
    """
    names = tuple(dict.fromkeys(check_name(channel, "channel") for channel in channels))
    if not names:
        msg = "a listener needs at least one channel, none was given"
        raise InvalidOption(msg)
    return names


def listen(hub: WakeHub, names: tuple[str, ...]) -> PostgresListener:
    """Return a listener of the channels *names*, checked, that hears whatever is sent from now on.

    The first listener of a store waits up to `CONNECT_LIMIT` for the connection; when that
    takes longer, or fails, it gets a wake for each of its channels once it is there.
    """
    heard = hub.state == "listening"
    listener = PostgresListener(hub, names)
    if not heard and hub.settle(CONNECT_LIMIT):
        listener.forget()
    return listener


class PostgresListener:
    """Hears the wakes of some channels until it is closed (trait `alkstore.Listener`).

    A wake that nobody waits for is remembered, once for each channel. Several threads may
    wait; each wake goes to one of them. Everything shared is a dict that is only read and
    written in single operations, so that neither a signal handler nor a fork can meet a
    lock that is held.

    One that is dropped without `close` is closed when it is collected: the hub knows its ear
    only.

    Args:
        hub: Where the wakes come from.
        channels: The names to listen on, checked.
    """

    def __init__(self, hub: WakeHub, channels: tuple[str, ...]) -> None:
        self._hub = hub
        self._ear = _Ear(hub, channels)
        weakref.finalize(self, self._ear.close).atexit = False

    def wait(self, timeout: Seconds | None = None, stop: StopToken | None = None) -> Wake | None:
        """Return the next wake; ``None`` when the time is up, on *stop*, or when closed.

        Args:
            timeout: Seconds or `timedelta`; ``None``: no limit.
            stop: Ends the wait.

        Raises:
            InvalidOption: *timeout* is not a duration, or *stop* no stop token.
        """
        limit = wait_seconds(timeout)
        stop = check_optional_stop(stop)
        deadline = None if limit is None else time.monotonic() + limit
        ear = self._ear
        ear.follow_fork()
        parker = Parker()
        try:
            ear.parkers[id(parker)] = parker
            if stop is not None:
                stop.attach(parker)
            while not self._has_ended(stop):
                name = ear.take()
                if name is not None:
                    return Wake(name)
                left = None if deadline is None else deadline - time.monotonic()
                if left is not None and left <= 0:
                    return None
                # Nobody polls here: should there be no listening thread, it is tried again.
                if not parker.park(_LOOK_EVERY if left is None else min(left, _LOOK_EVERY)):
                    self._hub.keep_listening()
            return None
        finally:
            ear.parkers.pop(id(parker), None)
            if stop is not None:
                stop.detach(parker)

    def forget(self) -> None:
        """Forget the wakes that nobody waited for."""
        self._ear.woken.clear()

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

    def _has_ended(self, stop: StopToken | None) -> bool:
        return self._ear.closed or self._hub.closed or (stop is not None and stop.cancelled)


class _Ear:
    """What a listener has heard, and who waits for it; attached to the hub until it is closed."""

    def __init__(self, hub: WakeHub, channels: tuple[str, ...]) -> None:
        self._hub = hub
        self._channels = channels
        self.woken: dict[str, bool] = {}
        self.parkers: dict[int, Parker] = {}
        self.closed = False
        self._attach()

    def follow_fork(self) -> None:
        """Attach to the hub of the child after a fork."""
        if self._pid != os.getpid():
            self._attach()

    def take(self) -> str | None:
        """Take the channel that has waited longest."""
        for name in self.woken.copy():
            if self.woken.pop(name, False):
                return name
        return None

    def close(self) -> None:
        """Leave the hub, and end all waits."""
        if not self.closed:
            self.closed = True
            for name in self._channels:
                self._hub.detach(name, self._hear)
        self._unpark()

    def _attach(self) -> None:
        self._pid = os.getpid()
        if self.closed:
            return
        try:
            for name in self._channels:
                self._hub.attach(name, self._hear)
        except BaseException:
            for name in self._channels:
                self._hub.detach(name, self._hear)
            raise

    def _hear(self, name: str) -> None:
        self.woken[name] = True
        self._unpark()

    def _unpark(self) -> None:
        for parker in self.parkers.copy().values():
            parker.unpark()
