"""Stop tokens, and the parker that every wait of the product sleeps on.

Both are built from raw locks and atomic container operations only: nothing here takes a
lock that the interrupted code may hold, so `StopToken.cancel` and `Parker.unpark` may be
called from any thread and from a signal handler, whatever that handler interrupted.
"""

from __future__ import annotations

import math
import signal
import threading
import time
from collections.abc import Callable
from types import FrameType, TracebackType
from typing import Final, Protocol

from alkstore._typing import Self
from alkstore.arguments import wait_seconds
from alkstore.errors import InvalidOption

SLICE: Final = 0.5
"""The longest sleep of the main thread in one go, in seconds.

A signal that arrives in the instant before the main thread falls asleep, or in another thread,
is only noted by the interpreter; its handler runs when the main thread wakes.
"""


class Wakeable(Protocol):
    """Whatever can be woken: it must not block, raise, or take a lock."""

    def unpark(self) -> None:
        """Wake the sleeper; remembered when nobody sleeps yet."""
        ...


class Parker:
    """A place for one thread to sleep that remembers one wake.

    A binary semaphore: `unpark` before `park` makes that `park` return at once.
    """

    __slots__ = ("_permit",)

    def __init__(self) -> None:
        self._permit = threading.Lock()
        self._permit.acquire()

    def unpark(self) -> None:
        """Let the sleeping thread, or the next one to sleep, go on."""
        if not self._permit.locked():
            return  # a wake is remembered already
        try:
            self._permit.release()
        except RuntimeError:
            return  # another thread was quicker

    def park(self, timeout: float | None = None) -> bool:
        """Sleep until a wake or for *timeout* seconds (``None``: no limit).

        The main thread sleeps in slices, so that a signal is heard; nobody else is told of them.

        Returns:
            Whether there was a wake; it is used up.
        """
        if timeout is not None and timeout <= 0:
            return self._permit.acquire(blocking=False)
        left = math.inf if timeout is None else timeout
        if threading.get_ident() == threading.main_thread().ident:
            # No clock is asked: whatever it says, the sleep ends.
            while left > SLICE:
                if self._permit.acquire(timeout=SLICE):
                    return True
                left -= SLICE
        elif timeout is None:
            return self._permit.acquire()
        return self._permit.acquire(timeout=min(left, threading.TIMEOUT_MAX))


class _Level:
    """What one token knows of itself; its children share it."""

    __slots__ = ("cancelled", "waiters")

    def __init__(self) -> None:
        self.cancelled = False
        # Keyed by the waiter and the token it was attached through, so that one waiter may
        # wait on a token and on its parent, and leave either.
        self.waiters: dict[tuple[int, int], Wakeable] = {}


class StopToken:
    """Tells blocking calls to return.

    Every blocking call of the product takes one and returns within 100 ms of its
    cancellation. A cancelled token stays cancelled.

    Args:
        parent: A token whose cancellation cancels this one as well.
    """

    def __init__(self, parent: StopToken | None = None) -> None:
        self._own = _Level()
        above = () if parent is None else parent._levels  # noqa: SLF001 - of the same class
        self._levels: tuple[_Level, ...] = (self._own, *above)

    @property
    def cancelled(self) -> bool:
        """Whether this token, or one above it, was cancelled."""
        return any(level.cancelled for level in self._levels)

    def cancel(self) -> None:
        """Cancel; never blocks, may be called again, from anywhere."""
        self._own.cancelled = True
        # Copying a dict whose keys are tuples of ints runs no Python code: it is atomic. Who
        # registers after the copy looks at the flag afterwards.
        for waiter in self._own.waiters.copy().values():
            waiter.unpark()

    def wait(self, timeout: float | None = None) -> bool:
        """Sleep until the cancellation or for *timeout* seconds (``None``: no limit).

        Returns:
            Whether the token is cancelled.

        Raises:
            InvalidOption: *timeout* is not a duration.
        """
        limit = wait_seconds(timeout)
        parker = Parker()
        deadline = None if limit is None else time.monotonic() + limit
        try:
            self.attach(parker)
            while not self.cancelled:
                left = None if deadline is None else deadline - time.monotonic()
                if left is not None and left <= 0:
                    return False
                parker.park(left)
            return True
        finally:
            self.detach(parker)

    def child(self) -> StopToken:
        """Return a token that is cancelled with this one, and may be cancelled alone."""
        return StopToken(self)

    def attach(self, waiter: Wakeable) -> None:
        """Have *waiter* woken by the cancellation; at once when it has happened.

        For whoever waits for several things at once. `detach` it afterwards.
        """
        for level in self._levels:
            level.waiters[id(waiter), id(self)] = waiter
        if self.cancelled:
            waiter.unpark()

    def detach(self, waiter: Wakeable) -> None:
        """Forget *waiter*; nothing happens when it is not attached."""
        for level in self._levels:
            level.waiters.pop((id(waiter), id(self)), None)

    def on_signals(self, *signals: signal.Signals) -> SignalRegistration:
        """Cancel when one of *signals* arrives (SIGINT and SIGTERM when none is named).

        The first signal only cancels. A second one goes to the handler that was there
        before, so that an impatient second Ctrl-C still ends the program.

        Returns:
            The registration: `SignalRegistration.restore` puts the former handlers back,
            as does leaving its ``with`` block.

        Raises:
            ValueError: Not called in the main thread (a rule of `signal.signal`).
        """
        return SignalRegistration(self, signals or (signal.SIGINT, signal.SIGTERM))


def check_stop(stop: object) -> StopToken:
    """Return *stop* when it is a `StopToken`.

    Raises:
        InvalidOption: It is something else.
    """
    if not isinstance(stop, StopToken):
        msg = f"stop must be a StopToken, not a {type(stop).__name__}"
        raise InvalidOption(msg)
    return stop


def check_optional_stop(stop: object) -> StopToken | None:
    """Return *stop* when it is a `StopToken` or ``None``.

    Raises:
        InvalidOption: It is something else.
    """
    return None if stop is None else check_stop(stop)


_Handler = Callable[[int, FrameType | None], object] | int | None


class SignalRegistration:
    """Signal handlers that cancel a token, until they are restored."""

    def __init__(self, token: StopToken, signals: tuple[signal.Signals, ...]) -> None:
        self._token = token
        self._former: dict[int, _Handler] = {}
        try:
            # One that is named twice must not become its own former handler.
            for number in dict.fromkeys(signals):
                self._former[number] = signal.signal(number, self._handle)
        except BaseException:
            self.restore()
            raise

    def _handle(self, number: int, frame: FrameType | None) -> None:
        first = not self._token.cancelled
        # A second signal may interrupt the first one's `cancel`, and its former handler may
        # raise out of it: everybody is woken before that.
        self._token.cancel()
        if first:
            return
        former = self._former.get(number)
        if callable(former):
            former(number, frame)
        elif former == signal.SIG_DFL:
            signal.signal(number, signal.SIG_DFL)
            signal.raise_signal(number)

    def restore(self) -> None:
        """Put the former handlers back; may be called again."""
        for number, former in tuple(self._former.items()):
            signal.signal(number, signal.SIG_DFL if former is None else former)
            self._former.pop(number, None)

    def __enter__(self) -> Self:
        """Return itself; the handlers are installed already."""
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Restore the former handlers."""
        self.restore()
