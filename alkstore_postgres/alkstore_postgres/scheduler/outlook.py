"""What comes next, as the store clock sees it."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from alkstore_postgres.scheduler.instants import MICROS_PER_SECOND, is_sound, to_micros


@dataclass(frozen=True, slots=True)
class Outlook:
    """What the statement ``outlook`` told, tied to this process's monotonic clock.

    Attributes:
        due: Whether a boundary is due.
        damaged: Whether a schedule's next boundary is missing or beyond any calendar.
        asked_at: The monotonic time just before the question was sent.
        wait: Seconds from then until the soonest boundary that is not due, or ``None``.
    """

    due: bool
    damaged: bool
    asked_at: float
    wait: float | None

    @classmethod
    def read(cls, columns: Sequence[Any], asked_at: float) -> Outlook:
        """Return the outlook of a row of the statement ``outlook``."""
        now, soonest, due, damaged = columns
        wait = None
        if is_sound(soonest):
            wait = (to_micros(soonest) - to_micros(now)) / MICROS_PER_SECOND
        return cls(due, damaged, asked_at, wait)

    @property
    def pending(self) -> bool:
        """Whether a tick has something to do at once."""
        return self.due or self.damaged

    def seconds_left(self) -> float | None:
        """Return how many seconds are left until the soonest boundary that is not due.

        Measured from before the question was sent: it may be a fraction of a millisecond
        short, never long. A tick that comes too early finds nothing; the store clock alone
        decides.
        """
        if self.wait is None:
            return None
        return self.wait - (time.monotonic() - self.asked_at)
