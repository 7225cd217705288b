"""What one slice of a tick does, decided from the rows it read: no I/O, no clock."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from alkstore_postgres.scheduler.boundaries import NoBoundaryLeft, due
from alkstore_postgres.scheduler.row import Row, fault


class Firing(NamedTuple):
    """One schedule that fires.

    Attributes:
        number: Its number among the rows of the slice, from 0.
        name: The schedule.
        queue: Where its jobs go.
        fires: The boundaries to fire, oldest first, in microseconds; at least one.
        next_boundary: Where it goes on, in microseconds.
        passed_over: How many boundaries are skipped now.
        skipped: How many that makes altogether.
    """

    number: int
    name: str
    queue: str
    fires: tuple[int, ...]
    next_boundary: int
    passed_over: int
    skipped: int


class Fault(NamedTuple):
    """One schedule that cannot be fired.

    Attributes:
        number: Its number among the rows of the slice: its name need not tell it apart.
        name: The schedule, as far as its row still says; ``None`` when it does not.
        reason: Why it cannot.
    """

    number: int
    name: str | None
    reason: str


@dataclass(slots=True)
class Plan:
    """What becomes of the rows of a slice.

    Attributes:
        firings: Those that fire.
        faults: Those that cannot.
        refused: How many of those the database would not let be set aside; once that was tried,
            `faults` is without them.
        left: Whether rows stay for the next slice.
        reached: How many of the rows were dealt with.
    """

    firings: list[Firing] = field(default_factory=list)
    faults: list[Fault] = field(default_factory=list)
    refused: int = 0
    left: bool = False
    reached: int = 0


def plan(rows: Iterable[Row], now: int, most_fires: int) -> Plan:
    """Decide what the due *rows* fire at *now*.

    Args:
        rows: Rows that are due, or whose time is damaged.
        now: The store clock, in microseconds.
        most_fires: How many fires a slice takes; the first row is taken whatever it
            fires, so that each slice gets on.
    """
    result = Plan()
    fires = 0
    for number, row in enumerate(rows):
        if fires >= most_fires:
            result.left = True
            break
        result.reached += 1
        reason = fault(row)
        if reason is not None:
            result.faults.append(Fault(number, row.name, reason))
            continue
        try:
            owed = due(row.boundary, row.interval, now, latest=row.catch_up == "latest")
        except NoBoundaryLeft:
            reason = "its next boundary lies after the year 9999"
            result.faults.append(Fault(number, row.name, reason))
            continue
        if owed.fires:
            fires += len(owed.fires)
            result.firings.append(
                Firing(
                    number,
                    row.name,
                    row.queue,
                    owed.fires,
                    owed.next_boundary,
                    owed.skipped,
                    row.skipped_with(owed.skipped),
                )
            )
    return result
