"""A slice of a tick: how an attempt at it goes about it, what it did, what is told of it."""

from __future__ import annotations

import logging
from dataclasses import dataclass

from alkstore.runners.say import say
from alkstore_postgres.scheduler.outlook import Outlook
from alkstore_postgres.scheduler.plan import Plan

logger = logging.getLogger("alkstore.scheduler")

_LOGGED = 20
"""How many lines about skipped boundaries one slice logs."""


@dataclass(frozen=True, slots=True)
class Slice:
    """What one slice, or a whole tick, did.

    Attributes:
        fired: How many jobs it stored.
        skipped: How many boundaries it passed over.
        quarantined: How many schedules it set aside.
        left: Whether more is due than the slice took.
        since: Where the next slice goes on, for a tick of several, in microseconds since 2000.
        outlook: What comes next; only the last slice of a tick asks.
    """

    fired: int
    skipped: int
    quarantined: int
    left: bool
    since: int | None
    outlook: Outlook | None

    @property
    def progress(self) -> bool:
        """Whether anything changed."""
        return bool(self.fired or self.quarantined)


@dataclass(frozen=True, slots=True)
class Mode:
    """How one attempt at a slice goes about it.

    Attributes:
        since: Where the slice before this one of the same tick ended.
        damaged: Look for schedules whose time is damaged as well.
        wakes: Send wakes; a wake that fails never fails a tick.
        careful: Store the jobs under savepoints, to find the row that cannot be stored.
    """

    since: int | None
    damaged: bool
    wakes: bool
    careful: bool


def tell(made: Plan, *, refused_before: int = 0) -> None:
    """Log what was set aside or passed over, once it is committed.

    Each schedule that was set aside is named: that happens to it once, and it may be the only
    line about why its jobs stay away. Skipped boundaries come again, so few lines tell of them.

    Args:
        made: What the slice did.
        refused_before: How many could not be set aside in a slice before, which was told.
    """
    for fault in made.faults:
        say(
            logger,
            logging.ERROR,
            "schedule %a is quarantined until it is registered again: %s",
            fault.name,
            fault.reason,
        )
    if made.refused > refused_before:
        say(
            logger,
            logging.ERROR,
            "%d schedules that cannot be fired could not be quarantined either: the database "
            "lets nothing be written there; schedules() shows why they cannot be fired",
            made.refused,
        )
    skipping = [firing for firing in made.firings if firing.passed_over]
    for firing in skipping[:_LOGGED]:
        say(
            logger,
            logging.WARNING,
            "schedule %a skipped %d boundaries (%d fired)",
            firing.name,
            firing.passed_over,
            len(firing.fires),
        )
    unsaid = len(skipping) - _LOGGED
    if unsaid > 0:
        say(
            logger,
            logging.WARNING,
            "%d further schedules skipped boundaries; schedules() counts them",
            unsaid,
        )
