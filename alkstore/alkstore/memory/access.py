"""What the mechanisms of one store share: the way to the tables, its codec, its end."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Any

from alkstore._typing import Self
from alkstore.codec import Codec, Decoder, encode_payload
from alkstore.errors import StoreClosed
from alkstore.memory.data import MemoryData
from alkstore.memory.forks import Alive
from alkstore.stop_token import Parker, StopToken, Wakeable
from alkstore.values import Payload

POLL = 5.0
"""Whoever waits looks again after so many seconds at the latest."""

_SHORTEST_NAP = 0.001


class Access:
    """One store's way to tables that it may share with others.

    Args:
        data: The tables.
        codec: Turns payloads into bytes and back.
        max_payload_bytes: The largest encoded payload.
    """

    def __init__(self, data: MemoryData, codec: Codec, max_payload_bytes: int) -> None:
        self.data = data
        self.codec = codec
        self.max_payload_bytes = max_payload_bytes
        self.closed = False
        self._waiters: dict[int, tuple[Wakeable, Callable[[], None] | None]] = {}
        _all.add(self)

    @contextmanager
    def tables(self) -> Iterator[MemoryData]:
        """Lend the tables, locked.

        Raises:
            StoreClosed: The store was closed.
        """
        data = self.data
        with data.lock:
            self.check_open()
            yield data

    def check_open(self) -> None:
        """Raise `StoreClosed` when the store was closed."""
        if self.closed:
            msg = "the store is closed"
            raise StoreClosed(msg)

    def encode(self, payload: Any) -> bytes:
        """Return *payload* as it is stored; raises what `encode_payload` raises."""
        return encode_payload(self.codec, payload, self.max_payload_bytes)

    def stored(self, raw: bytes) -> Payload:
        """Return bytes that decode when they are read."""
        return Payload(raw, Decoder(self.codec))

    def attach(self, waiter: Wakeable, after_fork: Callable[[], None] | None = None) -> None:
        """Have *waiter* woken by the end of the store.

        Args:
            waiter: What to wake.
            after_fork: Called in a forked child, where *waiter* is attached no more;
                ``None``: it belongs to a thread of the parent's.
        """
        self._waiters[id(waiter)] = waiter, after_fork

    def detach(self, waiter: Wakeable) -> None:
        """Forget *waiter*."""
        self._waiters.pop(id(waiter), None)

    def close(self) -> None:
        """Refuse everything from now on, and wake whoever waits."""
        self.closed = True
        for waiter, _ in self._waiters.copy().values():
            waiter.unpark()

    def after_fork(self) -> None:
        """Forget the parent's waiters; what no thread has to wait for begins anew."""
        inherited, self._waiters = self._waiters, {}
        for _, follow in inherited.values():
            if follow is not None:
                follow()


class Sleeper:
    """A place for one thread to wait, in a ``with`` block.

    Woken by the wakes of a name, by each step of the clock, by the stop and by the end of
    the store. A wake that comes while nobody sleeps is remembered.

    Args:
        access: Whose tables are waited for.
        name: The mechanism's name.
        stop: Ends the wait.
        timeout: How long to wait altogether, in seconds; ``None``: no limit.
    """

    def __init__(
        self,
        access: Access,
        name: str,
        stop: StopToken | None = None,
        timeout: float | None = None,
    ) -> None:
        self._access = access
        self._name = name
        self._stop = stop
        self._deadline = math.inf if timeout is None else time.monotonic() + timeout
        self._parker = Parker()

    @property
    def left(self) -> float:
        """How many real seconds are left to wait."""
        return self._deadline - time.monotonic()

    def sleep(self, length: float | None) -> bool:
        """Sleep for *length* seconds of the store clock (``None``: no time is awaited).

        Returns:
            Whether it was woken before.
        """
        nap = POLL
        if length is not None:
            real = self._access.data.clock.nap(max(length, _SHORTEST_NAP))
            nap = POLL if real is None else min(real, POLL)
        return self._parker.park(min(nap, self.left))

    def unpark(self) -> None:
        """Wake it."""
        self._parker.unpark()

    def __enter__(self) -> Self:
        """Be woken from now on."""
        access = self._access
        access.data.wakes.attach(self._name, self, lambda _name: self.unpark())
        access.data.clock.attach(self)
        access.attach(self)
        if self._stop is not None:
            self._stop.attach(self)
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Be woken no more."""
        access = self._access
        if self._stop is not None:
            self._stop.detach(self)
        access.detach(self)
        access.data.clock.detach(self)
        access.data.wakes.detach(self._name, self)


_all: Alive[Access] = Alive()


def _after_fork() -> None:
    for access in _all.all():
        access.after_fork()


# Runs after the hook that gives the child its tables: that one was registered before.
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
