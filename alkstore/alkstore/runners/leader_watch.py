"""What a leader loop tells whoever runs it."""

from __future__ import annotations

from typing import Protocol


class LeaderWatch(Protocol):
    """Told how a leader loop does, from whatever thread it runs in; never blocks, never raises."""

    def led(self, until: float) -> None:
        """Note a turn, or a renewal in a sleep, that went well.

        Args:
            until: When the lease ends unless it is renewed, as `time.monotonic` tells:
                its time to live, counted from before the last renewal was asked for.
        """
        ...

    def failed(self, error: BaseException) -> None:
        """Note a failure that the loop outlives: it rests, and tries again.

        Whoever is told also logs it; the loop does not.
        """
        ...
