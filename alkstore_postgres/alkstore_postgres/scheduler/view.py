"""Rows as the application sees them: `Schedule` values, and a report for the health call."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from alkstore.codec import Codec, Decoder
from alkstore.errors import InvalidSpec
from alkstore.values import Payload, Schedule
from alkstore_postgres.scheduler.instants import (
    MICROS_PER_SECOND,
    from_micros,
    in_calendar,
)
from alkstore_postgres.scheduler.row import Row, fault, finite

_LATE_AFTER = 60 * MICROS_PER_SECOND
"""A boundary that is overdue for less is not called late, in microseconds."""


@dataclass(frozen=True, slots=True)
class ScheduleReport:
    """How the schedules stand.

    Attributes:
        total: How many there are.
        paused: How many of them are paused.
        quarantined: Name and reason of those that cannot be fired, met by a tick or not.
        late: Names of those whose next boundary is overdue by more than two intervals,
            and more than a minute: nobody fires them.
    """

    total: int
    paused: int
    quarantined: dict[str, str]
    late: list[str]


def to_schedule(columns: Sequence[Any], codec: Codec) -> Schedule:
    """Return the `Schedule` of a row's columns, the payload's last.

    A damaged row is shown as far as it can be, with the reason as its quarantine, whether
    a tick has met it or not.
    """
    row = Row.read(columns[:-1])
    payload: bytes | None = columns[-1]
    expires = finite(row.expires)
    return Schedule(
        stored=Payload(payload or b"", Decoder(codec)),
        name=row.name or "",
        spec=row.spec or "",
        interval=_interval(row),
        queue=row.queue or "",
        priority=row.priority or 0,
        expires=None if expires is None else timedelta(seconds=expires),
        max_attempts=row.max_attempts,
        starts_at=moment(row.starts_at),
        catch_up=row.catch_up or "",
        next_fire_at=moment(row.next_fire_at),
        last_fire_at=moment(row.last_fire_at),
        paused=bool(row.paused),
        skipped=row.skipped_with(0),
        quarantine=_reason(row),
    )


def moment(micros: int | None) -> datetime | None:
    """Return an instant of a row as a datetime, ``None`` when it is missing or damaged."""
    return from_micros(micros) if micros is not None and in_calendar(micros) else None


def report(rows: Iterable[Sequence[Any]]) -> ScheduleReport:
    """Return the report on rows of the statement ``judge``, as a `RawCursor` reads them."""
    total = paused = 0
    quarantined: dict[str, str] = {}
    late: list[str] = []
    for now, *columns in rows:
        row = Row._make(columns)
        total += 1
        paused += bool(row.paused)
        reason = _reason(row)
        if reason is not None:
            quarantined[row.name or ""] = reason
        elif not row.paused:
            overdue = now - row.boundary
            if overdue > max(2 * row.interval, _LATE_AFTER):
                late.append(row.name)
    return ScheduleReport(total, paused, dict(sorted(quarantined.items())), sorted(late))


def _interval(row: Row) -> timedelta:
    try:
        return timedelta(microseconds=row.interval)
    except InvalidSpec:
        return timedelta(0)


def _reason(row: Row) -> str | None:
    return fault(row) if row.quarantine is None else row.quarantine
