"""One turn of listening: from the connection to its end."""

from __future__ import annotations

import selectors
import socket
import time
from collections.abc import Callable
from typing import Any

import psycopg

from alkstore_postgres.wakes.line import Line
from alkstore_postgres.wakes.lookout import Lookout

Connect = Callable[[], psycopg.Connection[Any]]

_OTHERS_LIMIT = 2.0


class SilentError(Exception):
    """The server did not answer in time."""


class DeafError(Exception):
    """Statements are answered, but notifications do not arrive."""


class ClosingError(Exception):
    """The hub is being closed."""


class Turn:
    """Connects, proves that it hears, and listens until something is wrong.

    Args:
        connect: Makes a connection in autocommit mode.
        channel: The notification channel of the schema.
        bell: Has something to read when the hub is being closed.
        heartbeat: Seconds without a sound after which a probe is sent.
        patience: Seconds that the answer may take.
        wake: Called with each name that is woken.
        fall_behind: Called twice a second while wakes come faster than they are heard, so that
            one takes its time through all that came before it.
    """

    def __init__(
        self,
        connect: Connect,
        channel: str,
        bell: socket.socket,
        *,
        heartbeat: float,
        patience: float,
        wake: Callable[[str], None],
        fall_behind: Callable[[], None],
    ) -> None:
        self._connect = connect
        self._channel = channel
        self._bell = bell
        self._heartbeat = heartbeat
        self._patience = patience
        self._wake = wake
        self._fall_behind = fall_behind
        # Made once: a wake is heard sooner.
        self._selector = _selector()
        self._paused = False
        self._names: list[str] = []
        self.line: Line | None = None

    def run(self, ready: Callable[[], None]) -> None:
        """Listen; call *ready* once wakes are heard. Never returns.

        Raises:
            DeafError: The way to the server swallows notifications.
            SilentError: The server does not answer any more.
            ClosingError: The bell rang.
            psycopg.Error: The connection could not be made, or was lost.
        """
        line = self.line = Line(self._connect(), self._channel)
        for source in (line, self._bell):
            self._selector.register(source, selectors.EVENT_READ)
        line.greet()
        self._expect(line, lambda: not line.busy, self._patience)
        if not line.is_direct and not self._hears_others(line):
            line.withdraw()
            raise DeafError
        line.listen()
        self._expect_probe(line)
        ready()
        while True:
            self._follow(line)
            if line.is_proven:
                line.probe()
            self._expect_probe(line, or_wakes=True)

    def close(self) -> None:
        """Close the connection, if there is one."""
        self._selector.close()
        if self.line is not None:
            self.line.close()

    def _follow(self, line: Line) -> None:
        """Pass wakes on until none has come for a heartbeat; tell when they come too late."""
        lookout = Lookout(line.heard, self._heartbeat)
        while self._pump(line, self._heartbeat):
            verdict = lookout.judge(
                time.monotonic(), line.heard, proven=line.is_proven, paused=self._paused
            )
            if verdict == "probe":
                line.probe()
            elif verdict == "behind":
                self._fall_behind()

    def _expect_probe(self, line: Line, *, or_wakes: bool = False) -> None:
        """Wait for the answer of the probe, or for a wake: the answer may be behind many."""
        heard = line.heard
        try:
            self._expect(
                line, lambda: line.is_proven or (or_wakes and line.heard > heard), self._patience
            )
        except SilentError:
            if line.busy:
                raise
            raise DeafError from None

    def _hears_others(self, line: Line) -> bool:
        """Return whether *line* hears what another connection sends.

        A pooler may serve both statements of a connection through one server connection,
        so that it hears itself; what others send shows the truth.
        """
        other = Line(self._connect(), self._channel)
        try:
            line.probe_through(other)
            self._expect(line, lambda: line.answered, min(_OTHERS_LIMIT, self._patience))
        except SilentError:
            return False
        else:
            return True
        finally:
            other.close()

    def _expect(self, line: Line, done: Callable[[], bool], limit: float) -> None:
        deadline = time.monotonic() + limit
        while not done():
            left = deadline - time.monotonic()
            if left <= 0:
                msg = f"no answer within {limit:g} s"
                raise SilentError(msg)
            self._pump(line, left)

    def _pump(self, line: Line, limit: float) -> bool:
        """Wait up to *limit* seconds for something to read; return whether there was.

        What was read is passed on by the next call, on its way to sleep: whoever is woken needs
        the interpreter, and would wait for it while this thread goes on.
        """
        ready = self._selector.select(0)
        self._paused = not ready
        names, self._names = self._names, []
        for name in names:
            self._wake(name)
        readable = [key.fileobj for key, _ in ready or self._selector.select(limit)]
        if self._bell in readable:
            raise ClosingError
        if not readable:
            return False
        self._names = line.read()
        return True


def has_rung(bell: socket.socket, timeout: float) -> bool:
    """Return whether *bell* has something to read, after *timeout* seconds at most."""
    with _selector() as selector:
        selector.register(bell, selectors.EVENT_READ)
        return bool(selector.select(timeout))


def _selector() -> selectors.BaseSelector:
    # No epoll or kqueue: their descriptors would be shared with the child of a fork. Looked up for
    # each: gevent may have replaced it since.
    kind: type[selectors.BaseSelector] = getattr(
        selectors, "PollSelector", selectors.SelectSelector
    )
    return kind()
