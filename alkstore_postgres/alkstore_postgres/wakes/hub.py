"""The hub: one thread and one connection that listen for all waiters of a store.

Wakes are hints. The hub promises to survive whatever happens to its connection, and to wake
everybody when it is back; it promises no wake.
"""

from __future__ import annotations

import contextlib
import logging
import os
import random
import socket
import threading
import time
from typing import Literal

import psycopg

from alkstore.runners.at_exit import is_too_late
from alkstore.runners.say import say
from alkstore_postgres.database.ration import Ration
from alkstore_postgres.wakes.channel import wake_channel
from alkstore_postgres.wakes.turn import (
    ClosingError,
    Connect,
    DeafError,
    SilentError,
    Turn,
    has_rung,
)
from alkstore_postgres.wakes.waiters import Sink, Waiters

HubState = Literal["idle", "listening", "lost", "deaf", "closed"]
"""Not started yet; hears; tries to connect again; connected but hears nothing; closed."""

_FIRST_BACKOFF = 0.1
_MAX_BACKOFF = 5.0
_MOST_DOUBLINGS = 10  # by then it is the longest; a thousand more would be no float
_FIRST_DEAF_PAUSE = 60.0
_MAX_DEAF_PAUSE = 600.0
_CLOSE_LIMIT = 1.0
_FEW_SHORT = 2
_UNTOLD_PAUSE = 0.5

_DEAF = (
    "the listener's connection is accepted but hears nothing, as behind a transaction pooler; "
    "wakes are off and polling goes on. Give the listener a direct address"
)

_BEHIND = (
    "wakes arrive faster than the listener hears them; until it has caught up, "
    "everybody is woken twice a second"
)

_NOT_STARTED = "the listening thread could not be started; polling goes on"

_inherited: list[object] = []
"""Connections that came over a fork, kept for ever: they belong to the parent."""

logger = logging.getLogger(__name__)


class WakeHub:
    """Hears the wakes of a schema and passes them to whoever waits.

    The thread and the connection are started by the first `attach`. A connection that is
    lost is made again after 0.1 to 5 s: soon when it had lasted, later and later when it is lost
    again and again. One that went silent is found by a probe within *heartbeat* + *patience*
    seconds. Whatever it meets, its thread goes on.

    Args:
        connect: Makes a connection in autocommit mode
            (`alkstore_postgres.wakes.connect`).
        schema: The schema's name, unquoted.
        heartbeat: Seconds without a sound after which a probe is sent.
        patience: Seconds that the answer may take.
        deaf_pause: Seconds until a line that hears nothing is tried again, doubled each
            time up to ten minutes.
        steady: Seconds after which a connection has lasted.

    Attributes:
        waiters: Whom it wakes.
        reconnects: How often a line that was lost was made again.
    """

    def __init__(
        self,
        connect: Connect,
        schema: str,
        *,
        heartbeat: float = 15.0,
        patience: float = 10.0,
        deaf_pause: float = _FIRST_DEAF_PAUSE,
        steady: float = 5.0,
    ) -> None:
        self._connect = connect
        self._channel = wake_channel(schema)
        self._heartbeat = heartbeat
        self._patience = patience
        self._first_deaf_pause = deaf_pause
        self._steady = steady
        self._closed = False
        self.reconnects = 0
        self._reset()

    def _reset(self) -> None:
        self._pid = os.getpid()
        self._lock = threading.RLock()
        self.waiters = Waiters()
        self._thread: threading.Thread | None = None
        self._starting = False
        self._bell: socket.socket | None = None
        self._running: Turn | None = None
        self._state: HubState = "idle"
        self._settled = threading.Event()
        self._backoff = _FIRST_BACKOFF
        self._deaf_pause = self._first_deaf_pause
        self._ready_at: float | None = None
        self._short = 0
        self._told = True
        self._told_short = Ration()
        self._told_behind = Ration()
        self._told_not_started = Ration()

    @property
    def state(self) -> HubState:
        """What the hub is doing."""
        self._follow_fork()
        return self._state

    @property
    def closed(self) -> bool:
        """Whether `close` was called."""
        return self._closed

    def attach(self, name: str, sink: Sink, *, shared: bool = False) -> None:
        """Have *sink* called for each wake of *name*, until `detach`.

        It is called from the listening thread, also after each (re)connection and at
        `close`. It must not block; typically it unparks a `Parker`.

        Args:
            name: The mechanism's name; not checked.
            sink: What to call.
            shared: Of the shared sinks of a name any will do: a wake goes to one of them.
                Whoever was woken and finds more than it takes, or leaves without having
                looked, passes the wake on with `pass_on`.
        """
        self._follow_fork()
        self.waiters.add(name, sink, shared=shared)
        try:
            self._ensure_thread()
        except BaseException:
            self.waiters.remove(name, sink)
            raise

    def detach(self, name: str, sink: Sink) -> None:
        """Undo one `attach`."""
        self._follow_fork()
        self.waiters.remove(name, sink)

    def keep_listening(self) -> None:
        """Start the thread again if there is none, for those who wait and do not poll."""
        self._follow_fork()
        self._ensure_thread()

    def settle(self, limit: float) -> bool:
        """Wait up to *limit* seconds until the first attempt to listen has ended.

        Returns:
            Whether it listens now.
        """
        self._settled.wait(limit)
        return self._state == "listening"

    def pass_on(self, name: str) -> None:
        """Wake another of the shared sinks of *name* in this process: there is more to do."""
        self._follow_fork()
        self.waiters.pass_on(name)

    def is_alone(self, name: str) -> bool:
        """Return whether at most one shared sink of *name* is attached in this process."""
        return self.waiters.count(name) <= 1

    def wake_here(self, name: str) -> None:
        """Wake the waiters of this process, without a round trip."""
        if self._pid != os.getpid():
            self._follow_fork()
        self.waiters.wake(name)

    def close(self) -> None:
        """End the thread and the connection, and wake every waiter. May be repeated."""
        self._follow_fork()
        self._closed = True
        with self._lock:
            thread, bell = self._thread, self._bell
        try:
            if thread is not None and bell is not None:
                with contextlib.suppress(OSError):  # full: it rings already
                    bell.send(b"x")
                if thread is not threading.current_thread():
                    # One that is connecting at this moment ends when that does.
                    thread.join(_CLOSE_LIMIT)
        finally:  # after Ctrl-C too
            if bell is not None:
                bell.close()
            self._state = "closed"
            self._settled.set()
            self.waiters.wake_all()

    def after_fork(self) -> None:
        """Forget thread, connection and waiters: they are the parent's."""
        _inherited.append((self._running, self._lock, self.waiters))
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
            # A signal handler may come here while the interrupted code starts the thread.
            if not (self._starting or self.closed or self._is_running()):
                self._starting = True
                try:
                    self._start_thread()
                finally:
                    self._starting = False

    def _is_running(self) -> bool:
        return self._thread is not None and self._thread.is_alive()

    def _start_thread(self) -> None:
        try:
            heard, bell = socket.socketpair()
        except OSError as error:  # no more descriptors
            self._do_without(error)
            return
        try:
            for end in (heard, bell):
                end.settimeout(0)
            thread = threading.Thread(
                target=self._run, args=(heard,), name="alkstore-listener", daemon=True
            )
            thread.start()
        except RuntimeError as error:  # no more threads, or the interpreter is ending
            heard.close()
            bell.close()
            self._do_without(error)
            return
        except BaseException:  # Ctrl-C: it may run, and is told by this to end
            bell.close()
            raise
        if self._bell is not None:
            self._bell.close()
        self._thread, self._bell = thread, bell
        if self._closed:  # by a signal handler, meanwhile
            bell.close()

    def _do_without(self, error: Exception) -> None:
        """Go on without a listening thread; whoever attaches next tries again."""
        self._settled.set()
        if not is_too_late(error) and self._told_not_started.take():
            say(logger, logging.WARNING, _NOT_STARTED)

    def _run(self, bell: socket.socket) -> None:
        with bell:
            while not self._closed:
                try:
                    if has_rung(bell, self._turn(bell)):
                        return
                except ClosingError:
                    return
                except BaseException:  # noqa: BLE001 - nobody else would listen
                    time.sleep(_UNTOLD_PAUSE)

    def _turn(self, bell: socket.socket) -> float:
        """Listen until that ends; return how long to wait before the next time."""
        turn = Turn(
            self._connect,
            self._channel,
            bell,
            heartbeat=self._heartbeat,
            patience=self._patience,
            wake=self.waiters.wake,
            fall_behind=self._fall_behind,
        )
        self._running = turn
        try:
            try:
                turn.run(self._ready)
            finally:
                self._judge_line()
        except ClosingError:
            raise
        except DeafError:
            self._enter("deaf", logging.WARNING, _DEAF)
            pause = self._deaf_pause
            self._deaf_pause = min(pause * 2, _MAX_DEAF_PAUSE)
            return pause
        except (SilentError, psycopg.Error, OSError) as error:
            # The message of a failed connection names host and user, never a password.
            reason = str(error).strip().partition("\n")[0]
            self._enter("lost", logging.WARNING, "the listener is not connected: %s", reason)
        except BaseException as error:  # noqa: BLE001 - the thread must live on whatever happens
            self._enter("lost", logging.ERROR, "the listener failed; it starts again", error=error)
        finally:
            self._settled.set()
            self._running = None
            turn.close()
        pause = self._backoff
        self._backoff = min(pause * 2, _MAX_BACKOFF)
        return pause * random.uniform(0.5, 1.0)  # noqa: S311 - spreads reconnections

    def _ready(self) -> None:
        if self._state == "lost":
            self.reconnects += 1
        self._ready_at = time.monotonic()
        self._deaf_pause = self._first_deaf_pause
        # First: whoever sees that it listens hears nothing of the time before.
        self.waiters.wake_all()
        self._enter("listening", logging.INFO, "the listener is connected")
        self._settled.set()

    def _judge_line(self) -> None:
        """After a turn, choose how soon to connect again: soon, unless no line lasts."""
        if self._ready_at is None:
            return  # it never heard: the backoff goes on
        lasted = time.monotonic() - self._ready_at >= self._steady
        self._ready_at = None
        self._short = 0 if lasted else self._short + 1
        doublings = min(max(self._short - 1, 0), _MOST_DOUBLINGS)
        self._backoff = min(_FIRST_BACKOFF * 2**doublings, _MAX_BACKOFF)

    def _fall_behind(self) -> None:
        """Wake everybody, since the wakes that are meant for them come late; say so at times."""
        self.waiters.wake_all()
        if self._told_behind.take():
            say(logger, logging.WARNING, _BEHIND)

    def _enter(
        self,
        state: HubState,
        level: int,
        message: str,
        *details: object,
        error: BaseException | None = None,
    ) -> None:
        """Change the state, with one line in the log for each change.

        While connections are lost as soon as they are made, it is a pair of lines a minute.
        """
        if state == self._state or self._closed:
            return
        self._state = state
        if state != "listening":
            self._told = self._short <= _FEW_SHORT or self._told_short.take()
        if self._told:
            say(logger, level, message, *details, error=error)
