"""How often a line of the log may be written that has many occasions."""

from __future__ import annotations

import time
from typing import Final

QUIET: Final = 60.0
"""Such a line is written again after so many seconds."""


class Ration:
    """Allows one line a minute."""

    def __init__(self) -> None:
        self._taken: float | None = None

    def take(self) -> bool:
        """Return whether the line may be written now; if so, it counts as written."""
        now = time.monotonic()
        if self._taken is not None and now - self._taken < QUIET:
            return False
        self._taken = now
        return True
