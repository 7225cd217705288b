"""When the next claim may be the short statement.

The full claim statement answers everything at once: several priorities, what has to be swept,
when something becomes due. Most of its time goes into setting it up. While a queue has plenty
of jobs none of that is needed, and the short statement, which claims as many as were asked for
of the highest priority or nothing, says the same in two thirds of the time. The one for a single
job takes the first that nobody else is about to take, and less time still.

Where jobs are delayed at a priority above the ready ones, which a retry of an urgent job is enough
for, the short statement of the highest priority claims nothing. One that goes down to the first
priority with something due costs a little more, so it is sent once the other has overlooked a job.

A worker that sleeps alone in its process, and found a job after each of the last wakes, will find
one after the next wake too. Where workers of several processes are woken for one job, all but
one of them come too late, and the full statement has to tell them until when to sleep.
"""

from __future__ import annotations

_REST = 32
"""After a short statement that claimed nothing so many claims are full ones."""

_WAKES = 4
"""After so many wakes in a row that led to a job the next one is trusted ..."""

_MOST_WAKES = 64
"""... and after twice as many each time that the short statement claimed nothing, up to this."""

_BELOW = 256
"""So many short statements look below the highest priority, before one tries that again."""

_MANY_NAMES = 4096
"""Of so many queues nothing is remembered any more, and all of it learned again."""


class ClaimStreaks:
    """Knows for each queue whether its last claim left anything to claim.

    Shared by all threads of a store; each call is a few dict operations, so that no lock is
    needed, and a lost update only costs one statement.
    """

    def __init__(self) -> None:
        self._rests: dict[str, int] = {}
        self._wakes: dict[str, tuple[int, int]] = {}
        self._below: dict[str, int] = {}

    def goes_on(self, queue: str) -> bool:
        """Return whether to try the short statement."""
        return self._rests.get(queue) == 0

    def looked(self, queue: str, *, more: bool) -> None:
        """Note whether there was more behind what a full statement claimed."""
        if not more:
            self._rests.pop(queue, None)
        else:
            self._rests[queue] = max(self._rests.get(queue, 0) - 1, 0)

    def broke(self, queue: str) -> None:
        """Note that a short statement claimed nothing in a streak.

        Perhaps there is little left; or something lapses all the time, and the next one would
        fail as well.
        """
        self._rests[queue] = _REST

    def looks_below(self, queue: str) -> bool:
        """Return whether the next short statement is to look below the highest priority."""
        left = self._below.get(queue)
        if left is None:
            return False
        if left > 1:
            self._below[queue] = left - 1
        else:
            self._below.pop(queue, None)
        return True

    def overlooked(self, queue: str, *, in_streak: bool) -> None:
        """Note that the full statement has found what a short one, just before it, has not.

        When that looked at the highest priority alone, the next ones look below it.

        Args:
            queue: The queue's name.
            in_streak: Whether that was in a streak; else, after a wake.
        """
        if self._below.pop(queue, None) is not None:
            return
        if len(self._below) >= _MANY_NAMES:
            self._below.clear()
        self._below[queue] = _BELOW
        if in_streak:
            self._rests[queue] = 0
        else:
            self.kept(queue)

    def trusts(self, queue: str) -> bool:
        """Return whether to follow a wake with the short statement."""
        good, needed = self._wakes.get(queue, _NO_WAKES)
        return good >= needed

    def kept(self, queue: str) -> None:
        """Note that the short statement after a wake was the right one."""
        self._remember(queue, _WAKES, _WAKES)

    def deceived(self, queue: str) -> None:
        """Note that it claimed nothing.

        Most likely another process was quicker, and will be again.
        """
        needed = self._wakes.get(queue, _NO_WAKES)[1]
        self._remember(queue, 0, min(needed * 2, _MOST_WAKES))

    def woken(self, queue: str, *, found: bool) -> None:
        """Note whether a full statement after a wake has claimed a job."""
        good, needed = self._wakes.get(queue, _NO_WAKES)
        self._remember(queue, good + 1 if found else 0, needed)

    def _remember(self, queue: str, good: int, needed: int) -> None:
        if (good, needed) == _NO_WAKES:
            self._wakes.pop(queue, None)
            return
        if queue not in self._wakes and len(self._wakes) >= _MANY_NAMES:
            self._wakes.clear()
        self._wakes[queue] = (good, needed)


_NO_WAKES = (0, _WAKES)
