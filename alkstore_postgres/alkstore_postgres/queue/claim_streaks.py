"""When the next claim may be the short statement.

The full claim statement answers everything at once: several priorities, what has to be swept,
when something becomes due. Most of its time goes into setting it up. While a queue has plenty
of jobs none of that is needed, and the short statement, which claims as many as were asked for
of the highest priority or nothing, says the same in two thirds of the time.
"""

from __future__ import annotations

_REST = 32
"""After a short statement that claimed nothing so many claims are full ones."""


class ClaimStreaks:
    """Knows for each queue whether its last claim left anything to claim.

    Shared by all threads of a store; each call is a few dict operations, so that no lock is
    needed, and a lost update only costs one statement.
    """

    def __init__(self) -> None:
        self._rests: dict[str, int] = {}

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
        """Note that a short statement claimed nothing.

        Perhaps there is little left; or jobs are delayed at a priority above the ready
        ones, or something lapses all the time, and the next one would fail as well.
        """
        self._rests[queue] = _REST
