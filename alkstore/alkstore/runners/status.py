"""What a runner tells about itself: state, last error, last good turn, and its log."""

from __future__ import annotations

import logging
import math
import threading
import time

from alkstore.error_text import error_text
from alkstore.runners.say import say
from alkstore.values import RunnerState

_logger = logging.getLogger(__name__)

PATIENCE = 30.0
"""For how many seconds a runner may come to nothing before it is not healthy. One rule for all
of them: its state tells at once, its health asks for somebody who can do something about it."""

_REMINDER = 60.0
"""An error of a kind that was logged in this outage is logged again after so long."""

_BURST = 20
"""So many lines may follow each other at once ..."""

_REFILL = 5.0
"""... and one more every so many seconds."""


class Status:
    """How a runner does, as its parts report it.

    Each part of a runner (the claims, the heartbeats, ...) reports its good turns and its
    failures. The runner backs off from the first failure until every part that failed has
    had a good turn again: that is an outage. The log gets a line with the traceback when
    an outage begins and for each new kind of error in it, and one line when it is over;
    when things flap, the lines are rationed. Each failure is counted, logged or not.

    Args:
        name: The runner's name, for the log.

    Attributes:
        quiet_after: From when on, as `time.monotonic` tells, failures are counted and not logged.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self.quiet_after = math.inf
        self._lock = threading.Lock()
        self._state: RunnerState = "starting"
        self._last_error: BaseException | None = None
        self._last_good: float | None = None
        self._failures = 0
        self._failing: dict[str, int] = {}
        self._outage_since: float | None = None
        self._spoken: dict[type[BaseException], float] = {}
        self._ration = float(_BURST)
        self._ration_at = time.monotonic()

    @property
    def state(self) -> RunnerState:
        """``backing-off`` during an outage, else what the runner was last doing."""
        return "backing-off" if self._failing else self._state

    @property
    def last_error(self) -> BaseException | None:
        """The last failure, or ``None``."""
        return self._last_error

    @property
    def failures(self) -> int:
        """How many failures there were so far."""
        return self._failures

    def last_good_turn(self, now: float) -> float | None:
        """Return how long ago the last good turn was, in seconds, or ``None``."""
        return None if self._last_good is None else max(now - self._last_good, 0.0)

    def outage(self, now: float) -> float:
        """Return how long the present outage has lasted, in seconds (0.0: there is none)."""
        since = self._outage_since
        return 0.0 if since is None else max(now - since, 0.0)

    def slowness(self, now: float, begun_at: float, patience: float) -> str | None:
        """Return in words what is too long ago, or lasts too long, or ``None``.

        Args:
            now: The time, as `time.monotonic` tells.
            begun_at: When the runner was started.
            patience: How long an outage may last, and how old the last good turn may be, in
                seconds.
        """
        outage = self.outage(now)
        if outage > patience:
            return f"it has been backing off for {outage:.0f} s"
        age = self.last_good_turn(now)
        if age is None and now - begun_at > patience:
            return f"it was started {now - begun_at:.0f} s ago and has had no good turn"
        if age is not None and age > patience:
            return f"its last good turn was {age:.0f} s ago"
        return None

    def enter(self, state: RunnerState) -> None:
        """Note what the runner does from now on."""
        self._state = state

    def alive(self, part: str) -> None:
        """Note that *part* goes on, unless its last turn was a failure."""
        if part not in self._failing:
            self._last_good = time.monotonic()

    def good(self, part: str, state: RunnerState | None = None) -> None:
        """Note a good turn of *part*, and what the runner does from now on."""
        self._last_good = time.monotonic()
        if state is not None:
            self._state = state
        self.over(part)

    def over(self, part: str) -> None:
        """Note that there is nothing left at which *part* could fail."""
        if part not in self._failing:
            return
        lasted: float | None = None
        with self._lock:
            self._failing.pop(part, None)
            if not self._failing and self._outage_since is not None:
                if self._spoken:
                    lasted = time.monotonic() - self._outage_since
                self._outage_since = None
                self._spoken.clear()
        if lasted is not None:
            say(_logger, logging.INFO, "%s works again after %.1f s", self._name, lasted)

    def failed(self, part: str, error: BaseException) -> int:
        """Note a failure of *part*.

        Returns:
            How many failures in a row this part has had.
        """
        with self._lock:
            now = time.monotonic()
            self._last_error = error
            self._failures += 1
            in_a_row = self._failing[part] = self._failing.get(part, 0) + 1
            if self._outage_since is None:
                self._outage_since = now
            speak = now <= self.quiet_after and self._may_speak(type(error), now)
        if speak:
            say(
                _logger,
                logging.ERROR,
                "%s: the %s failed, trying again with backoff",
                self._name,
                part,
                error=error,
            )
        return in_a_row

    def gave_up(self, error: BaseException) -> None:
        """Note what ends the runner although nobody asked it to end."""
        with self._lock:
            self._last_error = error
            self._failures += 1
        say(
            _logger,
            logging.ERROR,
            "%s: ended by itself, for good: %s",
            self._name,
            error_text(error),
        )

    def _may_speak(self, kind: type[BaseException], now: float) -> bool:
        spoken = self._spoken.get(kind)
        if spoken is not None and now - spoken < _REMINDER:
            return False
        self._ration = min(self._ration + (now - self._ration_at) / _REFILL, _BURST)
        self._ration_at = now
        if self._ration < 1:
            return False
        self._ration -= 1
        self._spoken[kind] = now
        return True
