"""What a hand does to the row of a schedule, in each engine's tables."""

from __future__ import annotations

import math
from datetime import datetime, timezone
from typing import Any, NamedTuple

from alkstore.memory.data import MemoryData
from tests.support.schedules import ScheduleTable


class Damage(NamedTuple):
    """A column, and what is written there.

    Attributes:
        column: The column, of the same name in both.
        value: What is written in the memory engine.
        expression: The same in SQL.
    """

    column: str
    value: Any
    expression: str

    def in_memory(self, name: str, data: MemoryData) -> None:
        """Write it into the row of *name*."""
        setattr(data.schedules[name], self.column, self.value)

    def in_postgres(self, name: str, table: ScheduleTable) -> None:
        """Write it into the row of *name*."""
        table.set(name, self.column, self.expression)


# The first and the last instant of Python stand for what lies beyond.
_FIRST = datetime.min.replace(tzinfo=timezone.utc)
_LAST = datetime.max.replace(tzinfo=timezone.utc)
_PAST = datetime(2029, 12, 31, 23, 59, 59, 1, tzinfo=timezone.utc)
_LATE = datetime(9999, 12, 31, 23, 59, 59, 999_998, tzinfo=timezone.utc)

DAMAGES = [
    *(Damage("spec", text, f"'{text}'") for text in ("never", "", "@every 0s", "@every 1 h")),
    *(Damage("queue", text, f"'{text}'") for text in ("", "__alkstore_outbox:x", "mails", "new")),
    *(
        Damage(column, None, "NULL")
        for column in (
            *("spec", "queue", "payload", "priority", "expires", "max_attempts", "catch_up"),
            *("starts_at", "next_fire_at", "last_fire_at", "paused", "skipped", "quarantine"),
        )
    ),
    *(Damage(column, _FIRST, "'-infinity'") for column in ("starts_at", "next_fire_at")),
    *(Damage(column, _LAST, "'infinity'") for column in ("starts_at", "next_fire_at")),
    *(Damage(column, _LATE, f"'{_LATE}'") for column in ("starts_at", "next_fire_at")),
    *(Damage(column, _PAST, f"'{_PAST}'") for column in ("starts_at", "next_fire_at")),
    Damage("last_fire_at", _LAST, "'infinity'"),
    *(Damage("expires", number, f"{number}") for number in (-1.0, 0.0, 0.000_1, 1e300)),
    Damage("expires", math.nan, "'NaN'"),
    Damage("expires", math.inf, "'Infinity'"),
    *(Damage("max_attempts", number, f"{number}") for number in (-1, 0, 7)),
    *(Damage("skipped", number, f"{number}") for number in (-7, 2**63 - 1)),
    Damage("catch_up", "never", "'never'"),
    Damage("paused", True, "true"),
    Damage("paused", False, "false"),
    Damage("quarantine", "by hand", "'by hand'"),
]
