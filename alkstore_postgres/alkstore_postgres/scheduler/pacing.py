"""How often the leader loop may turn, whatever the clocks do."""

from __future__ import annotations

TURNS_PER_SECOND = 20
"""How many turns that achieve nothing are allowed a second, in the long run."""

_BURST = 5.0


class Pacing:
    """A bucket of turns that only time slept in earnest fills.

    No clock is read: a sleep that ran to its end counts with its length, one that a wake
    cut short counts nothing. So neither a clock that stands still or jumps, nor a storm of
    wakes, can make a loop spin.
    """

    def __init__(self) -> None:
        self._turns = _BURST

    def slept(self, seconds: float) -> None:
        """Count a sleep of *seconds* that ran to its end."""
        self._turns = min(self._turns + seconds * TURNS_PER_SECOND, _BURST)

    def take(self) -> float:
        """Take a turn; return how many seconds to sleep before it."""
        self._turns -= 1.0
        return 0.0 if self._turns >= 0 else 1.0 / TURNS_PER_SECOND

    def give_back(self) -> None:
        """Return the turn that was taken: it achieved something."""
        self._turns = min(self._turns + 1.0, _BURST)
