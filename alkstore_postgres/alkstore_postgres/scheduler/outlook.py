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
        now: The store clock then, in microseconds.
        soonest: The soonest boundary that is not due, in microseconds, or ``None``.
    """

    due: bool
    damaged: bool
    asked_at: float
    now: int
    soonest: int | None

    @classmethod
    def read(cls, columns: Sequence[Any], asked_at: float) -> Outlook:
        """Return the outlook of a row of the statement ``outlook``."""
        now, soonest, due, damaged = columns
        return cls(
            due,
            damaged,
            asked_at,
            to_micros(now),
            to_micros(soonest) if is_sound(soonest) else None,
        )

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
        if self.soonest is None:
            return None
        wait = (self.soonest - self.now) / MICROS_PER_SECOND
        return wait - max(time.monotonic() - self.asked_at, 0.0)
