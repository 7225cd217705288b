"""The schedules of a store and what they fired, as a hand in the database sees them."""

from __future__ import annotations

from collections import Counter
from datetime import datetime, timedelta
from typing import Any

import psycopg
from psycopg import sql
from psycopg.rows import TupleRow

Ledger = Counter[tuple[str, datetime]]


class ScheduleTable:
    """The schedules and jobs of a schema.

    Args:
        connection: An autocommit connection of the test's own.
        schema: The store's schema.
    """

    def __init__(self, connection: psycopg.Connection[Any], schema: str) -> None:
        self._connection = connection
        self._schema = schema

    def run(self, text: str, *values: object) -> psycopg.Cursor[Any]:
        """Run a statement; ``{schedules}``, ``{jobs}`` and ``{locks}`` stand for the tables."""
        names = {
            table: sql.Identifier(self._schema, table) for table in ("schedules", "jobs", "locks")
        }
        # The text is the test's own.
        return self._connection.execute(sql.SQL(text).format(**names), values)

    def shift(self, name: str, seconds: float) -> datetime:
        """Move the next boundary of *name* to so many seconds from now; return it."""
        row = self.run(
            "UPDATE {schedules} SET next_fire_at = clock_timestamp() + make_interval(secs => %s)"
            " WHERE name = %s RETURNING next_fire_at",
            seconds,
            name,
        ).fetchone()
        assert row is not None
        return _moment(row[0])

    def set(self, name: str, column: str, expression: str) -> None:
        """Set a column to an SQL expression."""
        text = f"UPDATE {{schedules}} SET {column} = {expression} WHERE name = %s"
        assert self.run(text, name).rowcount == 1

    def unprotect(self) -> None:
        """Drop what keeps the columns sound."""
        for column in (
            "next_fire_at", "created_at", "updated_at", "skipped", "priority", "paused", "spec",
            "queue", "catch_up", "payload",
        ):  # fmt: skip
            self.run(f"ALTER TABLE {{schedules}} ALTER COLUMN {column} DROP NOT NULL")

    def value(self, name: str, column: str) -> Any:
        """Return a column of *name*."""
        row = self.run(f"SELECT {column} FROM {{schedules}} WHERE name = %s", name).fetchone()
        assert row is not None
        return row[0]

    def row(self, name: str) -> TupleRow | None:
        """Return the whole row, its version included."""
        return self.run("SELECT xmin, s.* FROM {schedules} s WHERE name = %s", name).fetchone()

    def now(self) -> datetime:
        """Return the store clock."""
        row = self.run("SELECT clock_timestamp()").fetchone()
        assert row is not None
        return _moment(row[0])

    def fired(self, name: str) -> list[datetime]:
        """Return the boundaries that *name* was fired for, in the order of the jobs."""
        rows = self.run(
            "SELECT scheduled_for FROM {jobs} WHERE schedule = %s AND scheduled_for IS NOT NULL"
            " ORDER BY id",
            name,
        )
        return [_moment(row[0]) for row in rows]

    def ledger(self) -> Ledger:
        """Return how often each boundary of each schedule was fired."""
        rows = self.run("SELECT schedule, scheduled_for FROM {jobs} WHERE schedule IS NOT NULL")
        return Counter((row[0], _moment(row[1])) for row in rows)

    def jobs(self) -> int:
        """Return how many jobs there are."""
        row = self.run("SELECT count(*) FROM {jobs}").fetchone()
        assert row is not None
        return int(row[0])


def many(table: ScheduleTable, count: int, seconds: float = 1.0) -> None:
    """Register so many schedules that are due for so many seconds."""
    table.run(
        "INSERT INTO {schedules} (name, spec, queue, payload, priority, catch_up, next_fire_at,"
        " created_at, updated_at) SELECT 's' || n, '@every 1h', 'q' || n %% 10, '1', 0, 'all',"
        " now() - make_interval(secs => %s), now(), now() FROM generate_series(1, %s) n",
        seconds,
        count,
    )


def grid(first: datetime, interval: timedelta, count: int) -> list[datetime]:
    """Return so many boundaries from *first* on."""
    return [first + number * interval for number in range(count)]


def holes(ledger: Ledger, name: str, interval: timedelta) -> list[datetime]:
    """Return the boundaries that are missing between the first and the last one fired."""
    fired = sorted(boundary for schedule, boundary in ledger if schedule == name)
    if not fired:
        return []
    count = (fired[-1] - fired[0]) // interval + 1
    return sorted(set(grid(fired[0], interval, count)) - set(fired))


def _moment(value: datetime) -> datetime:
    return value
