"""What a leader loop tells whoever runs it."""

from __future__ import annotations

import threading
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

        Whoever is told also logs it; the loop does not. After the stop nothing is told: the
        loop ends then, whatever its last turn comes to.
        """
        ...

    def left(self, thread: threading.Thread) -> None:
        """Note that the caller was let go at the stop, and the loop was not ready to end.

        Args:
            thread: Where a call of the loop is still under way. It gives the lease back and
                ends with that call.
        """
        ...
