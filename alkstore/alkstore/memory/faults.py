"""What is wrong with a schedule's row that a hand has damaged."""

from __future__ import annotations

from typing import Final

from alkstore.arguments import MAX_SECONDS
from alkstore.errors import AlkstoreError, InvalidOption
from alkstore.memory.data import ScheduleRow
from alkstore.memory.every import read_every
from alkstore.memory.grid import is_usable
from alkstore.names import check_name
from alkstore.options import resolve_schedule

MAX_SKIPPED: Final = 2**63 - 1
"""Where the count of skipped boundaries stays once it got there."""

_UNUSABLE = "has no time zone, or lies at the very edge of the calendar"


def reason(row: ScheduleRow) -> str | None:
    """Return why *row* cannot be fired, met by a tick or not, or ``None`` when it can."""
    return fault(row) if row.quarantine is None else row.quarantine


def fault(row: ScheduleRow) -> str | None:
    """Return what is wrong with *row* as it stands, or ``None``.

    What does not keep it from firing (when it fired last, how many were skipped) is no
    fault.
    """
    try:
        _check(row)
    except AlkstoreError as error:
        return str(error)
    except (TypeError, ValueError, OverflowError) as error:
        return f"a column holds something unexpected ({type(error).__name__})"
    return None


def _check(row: ScheduleRow) -> None:
    check_name(row.name, "schedule")
    read_every(row.spec)
    check_name(row.queue, "queue")
    if not isinstance(row.payload, bytes):
        raise InvalidOption("payload is missing, or no bytes")
    if row.priority is None:
        raise InvalidOption("priority is missing")
    resolve_schedule({"priority": row.priority, "max_attempts": row.max_attempts})
    # A row is not held to the millisecond that an option is.
    if row.expires is not None and not 0 < row.expires <= MAX_SECONDS:
        limit = f"above 0 and at most {MAX_SECONDS:.0f} seconds"
        raise InvalidOption(f"expires must be {limit}, not {row.expires!r}")
    if row.catch_up not in ("all", "latest"):
        raise InvalidOption(f"catch_up must be 'all' or 'latest', not {ascii(row.catch_up)[:60]}")
    if row.starts_at is not None and not is_usable(row.starts_at):
        raise InvalidOption(f"starts_at {_UNUSABLE}")
    if not is_usable(row.next_fire_at):
        raise InvalidOption(f"next_fire_at is missing, {_UNUSABLE}")
    if row.paused is None:
        raise InvalidOption("paused is missing")
