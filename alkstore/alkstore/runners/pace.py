"""How many claims to hold ahead of quick handlers."""

from __future__ import annotations

AHEAD_SECONDS = 0.02
"""Only what will be begun within so many seconds at the present pace is claimed ahead."""

MOST_AHEAD = 500

_WINDOW = 0.02


class Pace:
    """Measures how many jobs a second are finished.

    Claiming one job for each free handler costs a round trip a job. Handlers that take
    microseconds would wait for the database most of the time, so a few claims are held
    ready for them: as many as were finished in the last 20 ms. Slow handlers get none,
    since what is held ready is kept from other workers.
    """

    def __init__(self, now: float) -> None:
        self._since = now
        self._finished = 0
        self._ahead = 0

    def begin_anew(self, finished: int, now: float) -> None:
        """Forget how quick the jobs were: what comes next may be of another kind.

        Args:
            finished: As `ahead`.
            now: As `ahead`.
        """
        self._since = now
        self._finished = finished
        self._ahead = 0

    def ahead(self, finished: int, now: float) -> int:
        """Return how many claims to hold ahead.

        Args:
            finished: How many jobs have been finished so far.
            now: The time, in seconds, on any clock that does not go back.
        """
        elapsed = now - self._since
        if elapsed >= _WINDOW:
            pace = (finished - self._finished) / elapsed
            self._ahead = min(int(pace * AHEAD_SECONDS), MOST_AHEAD)
            self._since = now
            self._finished = finished
        return self._ahead
