"""How many schedules a slice of a tick takes: no I/O, no clock."""

from __future__ import annotations

FIRST_ROWS = 500
"""How many schedules a slice takes at first, and at least while it ends well within the limit.

Each slice costs some round trips and a commit, whatever it takes: slices of a few rows would
be mostly that, on a busy machine or a server some milliseconds away."""

_MOST_ROWS = 4_000
_TARGET = 0.06
"""How long the work of a slice should take, in seconds: the stop and the renewal wait for it."""


class SliceSize:
    """Grows and shrinks the slices of a tick by what the ones before took.

    What matters is that a slice stays far below *limit*: only one that takes more than half of
    it, or that fails, makes slices smaller than `FIRST_ROWS`. When a smaller slice takes about
    as long as the larger one before it, the time is not the rows': it is left out from then on.

    Args:
        limit: After how many seconds the server ends a statement.

    Attributes:
        rows: How many rows the next slice takes.
        taken: How many rows the present slice works on; 0 while it has not come to any, so
            that a failure then says nothing about its size.
    """

    def __init__(self, limit: float) -> None:
        self.rows = FIRST_ROWS
        self.taken = 0
        self._limit = limit
        self._target = min(_TARGET, limit / 4)
        self._fixed = 0.0
        self._larger: tuple[int, float] | None = None

    def took(self, seconds: float, *, full: bool) -> None:
        """Learn from a slice that worked.

        Args:
            seconds: How long its `taken` rows took, as far as that grows with the rows.
            full: Whether there was more to take.
        """
        larger, self._larger = self._larger, None
        if not self.taken or not seconds <= 4 * self._limit:
            return  # longer than the server allows: the clock jumped, or the process was frozen
        seconds = max(seconds, 0.0)
        if larger is not None and self._was_in_vain(larger, seconds):
            self.rows = larger[0]
            return
        self._fixed = min(self._fixed, seconds)
        work = seconds - self._fixed
        if work > self._limit / 2:
            self._shrink(seconds, least=1)
        elif work > 2 * self._target:
            self._shrink(seconds, least=FIRST_ROWS)
        elif full and work < self._target and seconds < self._limit / 2:
            self.rows = min(self.rows * 2, _MOST_ROWS)

    def failed(self) -> None:
        """Learn from a slice that the server ended, or whose connection broke."""
        self._larger = None
        if self.taken:
            self.rows = max(min(self.rows, self.taken) // 2, 1)

    def _shrink(self, seconds: float, *, least: int) -> None:
        rows = max(min(self.rows, self.taken) // 2, least)
        if rows < self.rows:
            self._larger = (self.taken, seconds)
            self.rows = rows

    def _was_in_vain(self, larger: tuple[int, float], seconds: float) -> bool:
        """Return whether fewer rows saved less than half of what rows alone would explain."""
        rows, before = larger
        fewer = rows - self.taken
        saved = max(before - seconds, 0.0)
        if fewer <= 0 or saved >= before * fewer / rows / 2:
            return False
        self._fixed = max(seconds - saved / fewer * self.taken, 0.0)
        return True
