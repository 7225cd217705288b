"""A schedule's row as it was read, and what is wrong with it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import datetime
from functools import lru_cache
from typing import Any, NamedTuple

from alkstore.arguments import MAX_SECONDS, positive_int
from alkstore.errors import AlkstoreError, InvalidOption
from alkstore.names import check_name
from alkstore.options import MAX_ATTEMPTS_LIMIT, MAX_PRIORITY, MIN_PRIORITY
from alkstore_postgres.scheduler.every import parse_every
from alkstore_postgres.scheduler.instants import MICROS_PER_SECOND, in_calendar, to_micros

MAX_SKIPPED = 2**63 - 1
"""Where the count of skipped boundaries stays once it got there."""


class Row(NamedTuple):
    """The columns of a schedule that decide what becomes of it.

    The statements select them in the order of the fields. Constraints keep them sound; a
    hand may have dropped those. So every field may be ``None`` or out of range, and `fault`
    is asked before anything is computed. Times are microseconds since 2000.
    """

    name: str
    spec: str
    queue: str
    priority: int
    expires: float | None
    max_attempts: int | None
    catch_up: str
    starts_at: int | None
    next_fire_at: int | None
    last_fire_at: int | None
    paused: bool | None
    skipped: int | None
    quarantine: str | None
    has_payload: bool

    @classmethod
    def read(cls, columns: Sequence[Any]) -> Row:
        """Return the row of columns whose times were read as datetimes."""
        row = cls(*columns)
        return row._replace(
            starts_at=_micros(columns[7]),
            next_fire_at=_micros(columns[8]),
            last_fire_at=_micros(columns[9]),
        )

    @property
    def interval(self) -> int:
        """The distance of its boundaries in microseconds.

        Raises:
            InvalidSpec: The spec is damaged.
        """
        return _interval_of(self.spec)

    @property
    def boundary(self) -> int:
        """Its next boundary in microseconds; only for a row whose time is sound."""
        assert self.next_fire_at is not None  # noqa: S101 - narrows what `fault` has checked
        return self.next_fire_at

    def skipped_with(self, more: int) -> int:
        """Return the count of skipped boundaries after *more* of them."""
        return min(max(self.skipped or 0, 0) + more, MAX_SKIPPED)


@lru_cache(maxsize=256)
def _interval_of(spec: str) -> int:
    """Return the interval of a spec in microseconds; a tick meets few different ones."""
    return parse_every(spec) * MICROS_PER_SECOND


def _micros(instant: datetime | None) -> int | None:
    return None if instant is None else to_micros(instant)


def fault(row: Row) -> str | None:
    """Return why *row* cannot be fired, or ``None`` when it can.

    What does not keep it from firing (when it fired last, how many were skipped) is no
    fault: the next fire writes it anew.
    """
    try:
        _check(row)
    except AlkstoreError as error:
        return str(error)
    except (TypeError, ValueError, OverflowError) as error:
        return f"a column holds something unexpected ({type(error).__name__})"
    return None


def _check(row: Row) -> None:
    check_name(row.name, "schedule")
    _check_terms(
        row.spec,
        row.queue,
        row.priority,
        row.expires,
        row.max_attempts,
        row.catch_up,
        row.has_payload,
    )
    if row.starts_at is not None and not in_calendar(row.starts_at):
        raise InvalidOption("starts_at is infinite or outside the years 1 to 9999")
    if row.next_fire_at is None:
        raise InvalidOption("next_fire_at is NULL")
    if not in_calendar(row.next_fire_at):
        raise InvalidOption("next_fire_at is infinite or outside the years 1 to 9999")
    if row.paused is None:
        raise InvalidOption("paused is NULL")


@lru_cache(maxsize=1024, typed=True)
def _check_terms(  # noqa: PLR0917 - one for each column
    spec: str,
    queue: str,
    priority: object,
    expires: float | None,
    max_attempts: int | None,
    catch_up: str,
    has_payload: bool,  # noqa: FBT001 - a column
) -> None:
    """Refuse what is damaged; what was found sound once is remembered, and only that.

    A tick meets few different terms, in many rows.
    """
    _interval_of(spec)
    check_name(queue, "queue")
    if not has_payload:
        raise InvalidOption("payload is NULL")
    if not isinstance(priority, int) or not MIN_PRIORITY <= priority <= MAX_PRIORITY:
        raise InvalidOption(
            f"priority must be from {MIN_PRIORITY} to {MAX_PRIORITY}, not {priority!a}"
        )
    if expires is not None and not 0 < expires <= MAX_SECONDS:  # NaN fails as well
        raise InvalidOption(
            f"expires must be above 0 and at most {MAX_SECONDS:.0f} seconds, not {expires!r}"
        )
    if max_attempts is not None:
        positive_int(max_attempts, "max_attempts", most=MAX_ATTEMPTS_LIMIT)
    if catch_up not in ("all", "latest"):
        raise InvalidOption(f"catch_up must be 'all' or 'latest', not {ascii(catch_up)[:60]}")


def finite(value: float | None) -> float | None:
    """Return *value*, or ``None`` for what is no duration that can be shown."""
    if value is None or not math.isfinite(value) or abs(value) > MAX_SECONDS:
        return None
    return value
