"""The hub: one thread and one connection that listen for all waiters of a store.

Wakes are hints. The hub promises to survive whatever happens to its connection, and to wake
everybody when it is back; it promises no wake.
"""

from __future__ import annotations

import contextlib
import logging
import os
import random
import selectors
import socket
import threading
import time
from collections.abc import Callable
from typing import Any, Literal

import psycopg

from alkstore_postgres.wakes.channel import wake_channel
from alkstore_postgres.wakes.line import Line
from alkstore_postgres.wakes.waiters import Sink, Waiters

HubState = Literal["idle", "listening", "lost", "deaf", "closed"]
"""Not started yet; hears; tries to connect again; connected but hears nothing; closed."""

_FIRST_BACKOFF = 0.1
_MAX_BACKOFF = 5.0
_FIRST_DEAF_PAUSE = 60.0
_MAX_DEAF_PAUSE = 600.0
_CLOSE_LIMIT = 1.0
_OTHERS_LIMIT = 2.0

# No epoll or kqueue: their descriptors would be shared with the child of a fork.
_Selector: type[selectors.BaseSelector] = getattr(
    selectors, "PollSelector", selectors.SelectSelector
)

_inherited: list[object] = []
"""Connections that came over a fork, kept for ever: they belong to the parent."""

logger = logging.getLogger(__name__)


class _SilentError(Exception):
    """The server did not answer in time."""


class _DeafError(Exception):
    """Statements are answered, but notifications do not arrive."""


class _ClosingError(Exception):
    """The hub is being closed."""


class WakeHub:
    """Hears the wakes of a schema and passes them to whoever waits.

    The thread and the connection are started by the first `attach`. A connection that is
    lost is made again after 0.1 to 5 s; one that went silent is found by a probe within
    *heartbeat* + *patience* seconds.

    Args:
        connect: Makes a connection in autocommit mode
            (`alkstore_postgres.wakes.connect`).
        schema: The schema's name, unquoted.
        heartbeat: Seconds without a sound after which a probe is sent.
        patience: Seconds that the answer may take.
        deaf_pause: Seconds until a line that hears nothing is tried again, doubled each
            time up to ten minutes.
    """

    def __init__(
        self,
        connect: Callable[[], psycopg.Connection[Any]],
        schema: str,
        *,
        heartbeat: float = 15.0,
        patience: float = 10.0,
        deaf_pause: float = _FIRST_DEAF_PAUSE,
    ) -> None:
        self._connect = connect
        self._channel = wake_channel(schema)
        self._heartbeat = heartbeat
        self._patience = patience
        self._first_deaf_pause = deaf_pause
        self._closed = False
        self.reconnects = 0
        self._reset()

    def _reset(self) -> None:
        self._pid = os.getpid()
        self._lock = threading.RLock()
        self._waiters = Waiters()
        self._thread: threading.Thread | None = None
        self._bell: socket.socket | None = None
        self._line: Line | None = None
        self._state: HubState = "idle"
        self._settled = threading.Event()
        self._backoff = _FIRST_BACKOFF
        self._deaf_pause = self._first_deaf_pause

    @property
    def state(self) -> HubState:
        """What the hub is doing."""
        return self._state

    @property
    def is_deaf(self) -> bool:
        """Whether the way to the server swallows notifications, as a pooler does."""
        return self._state == "deaf"

    @property
    def closed(self) -> bool:
        """Whether `close` was called."""
        return self._closed

    def attach(self, name: str, sink: Sink) -> None:
        """Have *sink* called for each wake of *name*, until `detach`.

        It is called from the listening thread, also after each (re)connection and at
        `close`. It must not block; typically it unparks a `Parker`.
        """
        self._follow_fork()
        self._waiters.add(name, sink)
        self._ensure_thread()

    def detach(self, name: str, sink: Sink) -> None:
        """Undo one `attach`."""
        self._follow_fork()
        self._waiters.remove(name, sink)

    def settle(self, limit: float) -> None:
        """Wait up to *limit* seconds until the first attempt to listen has ended."""
        self._settled.wait(limit)

    def wake_here(self, name: str) -> None:
        """Wake the waiters of this process, without a round trip."""
        self._follow_fork()
        self._waiters.wake(name)

    def close(self) -> None:
        """End the thread and the connection, and wake every waiter. May be repeated."""
        self._follow_fork()
        self._closed = True
        with self._lock:
            thread, bell = self._thread, self._bell
        if thread is not None and bell is not None:
            with contextlib.suppress(OSError):  # full: it rings already
                bell.send(b"x")
            if thread is not threading.current_thread():
                # One that is connecting at this moment ends when that does.
                thread.join(_CLOSE_LIMIT)
            bell.close()
        self._state = "closed"
        self._settled.set()
        self._waiters.wake_all()

    def after_fork(self) -> None:
        """Forget thread, connection and waiters: they are the parent's."""
        _inherited.append((self._line, self._lock, self._waiters))
        if self._bell is not None:
            self._bell.close()  # the child's copy only
        self._reset()
        if self._closed:
            self._state = "closed"

    def _follow_fork(self) -> None:
        if self._pid != os.getpid():
            self.after_fork()

    def _ensure_thread(self) -> None:
        if self._closed or self._is_running():
            return
        with self._lock:
            if not self._is_running():
                self._start_thread()

    def _is_running(self) -> bool:
        return self._thread is not None and self._thread.is_alive()

    def _start_thread(self) -> None:
        heard, bell = socket.socketpair()
        for end in (heard, bell):
            end.settimeout(0)
        thread = threading.Thread(
            target=self._run, args=(heard,), name="alkstore-listener", daemon=True
        )
        try:
            thread.start()
        except RuntimeError:  # no more threads, or the interpreter is ending
            heard.close()
            bell.close()
            self._settled.set()
            logger.warning("the listening thread could not be started; polling goes on")
            return
        if self._bell is not None:
            self._bell.close()
        self._thread, self._bell = thread, bell

    def _run(self, bell: socket.socket) -> None:
        try:
            while not self._closed:
                try:
                    pause = self._turn(bell)
                    self._rest(bell, pause)
                except _ClosingError:
                    break
        finally:
            bell.close()

    def _turn(self, bell: socket.socket) -> float:
        """Listen until that ends; return how long to wait before the next time."""
        try:
            self._listen(bell)
        except _DeafError:
            self._enter(
                "deaf",
                logging.WARNING,
                "the listener's connection is accepted but hears nothing, as behind a "
                "transaction pooler; wakes are off and polling goes on. Give the listener a "
                "direct address",
            )
            pause = self._deaf_pause
            self._deaf_pause = min(pause * 2, _MAX_DEAF_PAUSE)
            return pause
        except (_SilentError, psycopg.Error, OSError) as error:
            # The message of a failed connection names host and user, never a password.
            reason = str(error).strip().partition("\n")[0]
            self._enter("lost", logging.WARNING, "the listener is not connected: %s", reason)
        except _ClosingError:
            raise
        except BaseException:  # the thread must live on whatever happens
            if self._state != "lost":
                logger.exception("the listener failed; it starts again")
                self._state = "lost"
        finally:
            self._settled.set()
            line, self._line = self._line, None
            if line is not None:
                line.close()
        pause = self._backoff
        self._backoff = min(pause * 2, _MAX_BACKOFF)
        return pause * random.uniform(0.5, 1.0)  # noqa: S311 - spreads reconnections

    def _listen(self, bell: socket.socket) -> None:
        line = self._line = Line(self._connect(), self._channel)
        line.greet()
        self._expect(line, bell, lambda: not line.busy, self._patience)
        if not line.is_direct and not self._hears_others(line, bell):
            line.withdraw()
            raise _DeafError
        line.listen()
        self._expect_probe(line, bell)
        if self._state == "lost":
            self.reconnects += 1
        self._enter("listening", logging.INFO, "the listener is connected")
        self._backoff = _FIRST_BACKOFF
        self._deaf_pause = self._first_deaf_pause
        self._waiters.wake_all()
        self._settled.set()
        while True:
            self._hear(line, bell)
            line.probe()
            self._expect_probe(line, bell)

    def _hear(self, line: Line, bell: socket.socket) -> None:
        """Pass wakes on until it was silent for a heartbeat."""
        while self._pump(line, bell, self._heartbeat):
            pass

    def _expect_probe(self, line: Line, bell: socket.socket) -> None:
        try:
            self._expect(line, bell, lambda: line.answered and not line.busy, self._patience)
        except _SilentError:
            if line.busy:
                raise
            raise _DeafError from None

    def _hears_others(self, line: Line, bell: socket.socket) -> bool:
        """Return whether *line* hears what another connection sends.

        A pooler may serve both statements of a connection through one server connection,
        so that it hears itself; what others send shows the truth.
        """
        other = Line(self._connect(), self._channel)
        try:
            line.probe_through(other)
            self._expect(line, bell, lambda: line.answered, min(_OTHERS_LIMIT, self._patience))
        except _SilentError:
            return False
        else:
            return True
        finally:
            other.close()

    def _expect(
        self, line: Line, bell: socket.socket, done: Callable[[], bool], limit: float
    ) -> None:
        deadline = time.monotonic() + limit
        while not done():
            left = deadline - time.monotonic()
            if left <= 0:
                msg = f"no answer within {limit:g} s"
                raise _SilentError(msg)
            self._pump(line, bell, left)

    def _pump(self, line: Line, bell: socket.socket, limit: float) -> bool:
        """Wait up to *limit* seconds for something to read; return whether there was."""
        readable = _readable((line.fileno(), bell.fileno()), limit)
        if self._closed:
            raise _ClosingError
        if not readable:
            return False
        for name in line.read():
            self._waiters.wake(name)
        return True

    def _rest(self, bell: socket.socket, seconds: float) -> None:
        _readable((bell.fileno(),), seconds)
        if self._closed:
            raise _ClosingError

    def _enter(self, state: HubState, level: int, message: str, *details: object) -> None:
        """Change the state, with one line in the log for each change."""
        if state != self._state and not self._closed:
            self._state = state
            logger.log(level, message, *details)


def _readable(descriptors: tuple[int, ...], timeout: float) -> bool:
    with _Selector() as selector:
        for descriptor in descriptors:
            selector.register(descriptor, selectors.EVENT_READ)
        return bool(selector.select(timeout))
