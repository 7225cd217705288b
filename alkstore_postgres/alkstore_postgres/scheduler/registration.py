"""A registration: what the caller wants, and which grid that means."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from alkstore.errors import InvalidSpec
from alkstore.options import ScheduleSettings
from alkstore_postgres.scheduler.boundaries import new_grid
from alkstore_postgres.scheduler.instants import MICROS_PER_SECOND, in_calendar, to_micros
from alkstore_postgres.scheduler.row import Row, fault


@dataclass(frozen=True, slots=True)
class Registration:
    """A checked call of ``schedule``.

    Attributes:
        name: The schedule's name.
        spec: The spec as given.
        seconds: The interval that it says.
        queue: Where its jobs go.
        raw: The encoded payload.
        settings: The resolved options.
    """

    name: str
    spec: str
    seconds: int
    queue: str
    raw: bytes
    settings: ScheduleSettings

    @property
    def interval(self) -> int:
        """The interval in microseconds."""
        return self.seconds * MICROS_PER_SECOND

    @property
    def anchor(self) -> int | None:
        """The anchor of the grid in microseconds since 2000, if one is given."""
        starts_at = self.settings.starts_at
        return None if starts_at is None else to_micros(starts_at)

    def columns(self) -> dict[str, Any]:
        """Return what is stored as it was given, by column."""
        settings = self.settings
        return {
            "name": self.name,
            "spec": self.spec,
            "queue": self.queue,
            "payload": self.raw,
            "priority": settings.priority,
            "expires": settings.expires,
            "max_attempts": settings.max_attempts,
            "catch_up": settings.catch_up,
            "starts_at": settings.starts_at,
        }

    def is_stored_as(self, row: Row, payload: bytes | None) -> bool:
        """Return whether *row* is sound and says exactly this already."""
        settings = self.settings
        return (
            row.quarantine is None
            and fault(row) is None
            and row.skipped == row.skipped_with(0)
            and (row.last_fire_at is None or in_calendar(row.last_fire_at))
            and row.spec == self.spec
            and row.queue == self.queue
            and payload == self.raw
            and row.priority == settings.priority
            and row.expires == settings.expires
            and row.max_attempts == settings.max_attempts
            and row.catch_up == settings.catch_up
            and row.starts_at == self.anchor
        )


def next_boundary(wanted: Registration, row: Row | None, now: int) -> int:
    """Return the next boundary of a schedule that is registered at *now*.

    The same interval, however it is spelled, and the same ``starts_at`` keep the grid and
    its next boundary; anything else starts a new grid.

    Args:
        wanted: The registration.
        row: The row that is there, or ``None``.
        now: The store clock, in microseconds.

    Returns:
        Microseconds since 2000.

    Raises:
        NoBoundaryLeft: It would lie after the year 9999.
    """
    if row is not None and _same_grid(wanted, row):
        return row.boundary
    return new_grid(wanted.interval, wanted.anchor, now)


def _same_grid(wanted: Registration, row: Row) -> bool:
    try:
        interval = row.interval
    except InvalidSpec:
        return False
    return (
        interval == wanted.interval
        and row.starts_at == wanted.anchor
        and row.next_fire_at is not None
        and in_calendar(row.next_fire_at)
    )
