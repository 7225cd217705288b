"""What a leader makes of its failures: they are told, a rest, at last the end of its term."""

from __future__ import annotations

import logging
import time

from alkstore.errors import DatabaseError
from alkstore.runners.leader_watch import LeaderWatch
from alkstore.runners.pause import pause
from alkstore.runners.say import say

logger = logging.getLogger("alkstore.scheduler")


class Failures:
    """Counts failures in a row.

    Args:
        ttl: The lease's time to live, in seconds.
        watch: Told of each failure; ``None``: they are logged here.
    """

    def __init__(self, ttl: float, watch: LeaderWatch | None = None) -> None:
        self._watch = watch
        self._patience = 2 * ttl
        self._in_a_row = 0
        self._ticks_fail_since: float | None = None

    def note(self, error: Exception, what: str) -> float:
        """Tell of a failure (log it, more and more rarely); return how many seconds to rest."""
        self._in_a_row += 1
        if self._watch is not None:
            self._watch.failed(error)
        elif self._in_a_row & (self._in_a_row - 1) == 0:
            say(
                logger,
                logging.WARNING,
                "%s (%d in a row), trying again: %s: %s",
                what,
                self._in_a_row,
                type(error).__name__,
                error,
                error=None if isinstance(error, DatabaseError) else error,
            )
        return pause(self._in_a_row)

    def over(self) -> None:
        """Forget the failures: something went well."""
        if self._in_a_row and self._watch is None:
            say(logger, logging.INFO, "the scheduler goes on after %d failures", self._in_a_row)
        self._in_a_row = 0

    def tick_failed(self) -> None:
        """Note that a tick failed although the lease had just been renewed."""
        if self._ticks_fail_since is None:
            self._ticks_fail_since = time.monotonic()

    def tick_worked(self) -> None:
        """Note that a tick went well."""
        self._ticks_fail_since = None

    def renewal_failed(self) -> None:
        """Note that the database is away, which is no reason to step down."""
        self._ticks_fail_since = None

    @property
    def useless(self) -> bool:
        """Whether ticks have failed for two TTLs while the lease was renewed all the time."""
        since = self._ticks_fail_since
        return since is not None and time.monotonic() - since >= self._patience
