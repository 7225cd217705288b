"""A question to the database whose asker never waits long."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

from alkstore.error_text import error_text

PATIENCE = 1.0
"""How long one answer is waited for, in seconds: a liveness probe must not hang."""

_TRIES = 2
"""How often a question that failed is put: a connection may have died a moment ago."""


_SLOWER, _SLOWEST = 3.0, 5.0
"""So many times as long as the last answer took, and so many seconds at the most, a question is
only slow."""


class NoAnswer(Exception):
    """There is no answer.

    Args:
        why: The reason.
        lasts: For how many seconds nobody has had one.
    """

    def __init__(self, why: str, lasts: float) -> None:
        super().__init__(why)
        self.lasts = lasts


class Review:
    """Puts a question in a background thread, one at a time.

    A question that hangs is not put again: later askers wait for the same answer.

    Args:
        ask: The question; may take as long as the database does, and may raise anything.
        name: The name of the thread.
    """

    def __init__(self, ask: Callable[[], Mapping[str, Any]], name: str) -> None:
        self._ask = ask
        self._name = name
        self._lock = threading.Lock()
        self._asked: _Asked | None = None
        self._last: _Asked | None = None
        self._missing_since: float | None = None

    def answer(self) -> Mapping[str, Any]:
        """Return what the question is answered with, within `PATIENCE`.

        Where the last answer took long, it is returned while the next one is on its way.

        Raises:
            NoAnswer: It failed, or took too long.
        """
        deadline = time.monotonic() + PATIENCE
        tries = 0
        while True:
            asked, new = self._put()
            tries += new
            if not asked.answered.wait(max(deadline - time.monotonic(), 0.0)):
                waited = time.monotonic() - asked.at
                last = self._last
                if last is not None and waited < min(_SLOWER * last.took, _SLOWEST):
                    return last.found
                missing = self._missing_for(asked)
                msg = f"the database has not answered for {missing:.0f} s"
                raise NoAnswer(msg, missing)
            if asked.error is None:
                self._missing_since = None
                return asked.found
            if tries == _TRIES:
                msg = f"the database could not be asked: {error_text(asked.error)}"
                raise NoAnswer(msg, self._missing_for(asked)) from asked.error

    def _missing_for(self, asked: _Asked) -> float:
        """Return for how long there has been no answer: since this question or one before."""
        if self._missing_since is None:
            self._missing_since = asked.at
        return time.monotonic() - self._missing_since

    def _put(self) -> tuple[_Asked, bool]:
        """Return the question that waits for its answer, and whether it was put just now."""
        with self._lock:
            asked = self._asked
            if asked is not None and not asked.answered.is_set():
                return asked, False
            if asked is not None:
                self._last = asked if asked.error is None else None
                if asked.error is None:
                    self._missing_since = None  # it came, too late for whoever had asked
            asked = self._asked = _Asked()
            thread = threading.Thread(
                target=asked.run, args=(self._ask,), name=self._name, daemon=True
            )
            try:
                thread.start()
            except RuntimeError as error:
                asked.fail(error)
            except BaseException as error:  # Ctrl-C: nobody may wait for what may not run
                asked.fail(error)
                raise
            return asked, True


class _Asked:
    """A question that was put, and its answer once there is one."""

    def __init__(self) -> None:
        self.at = time.monotonic()
        self.took = 0.0
        self.answered = threading.Event()
        self.found: Mapping[str, Any] = {}
        self.error: BaseException | None = None

    def run(self, ask: Callable[[], Mapping[str, Any]]) -> None:
        """Ask."""
        try:
            self.found = ask()
        except BaseException as error:  # noqa: BLE001 - told by whoever waits
            self.fail(error)
        else:
            self.took = time.monotonic() - self.at
            self.answered.set()

    def fail(self, error: BaseException) -> None:
        """Note that there is no answer."""
        self.error = error
        self.answered.set()
