"""A store's job rows, read and set by hand."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import Any

import psycopg
from psycopg import sql
from psycopg.rows import dict_row

from alkstore.testing.contract.base import Span


class JobTable:
    """The live jobs and the dead letters of a schema.

    Args:
        connection: An autocommit connection of the test's own.
        schema: The store's schema.
    """

    def __init__(self, connection: psycopg.Connection[Any], schema: str) -> None:
        self._connection = connection
        self._live = sql.Identifier(schema, "jobs")
        self._dead = sql.Identifier(schema, "dead_jobs")

    def row(self, job_id: int) -> dict[str, Any]:
        """Return the row of a live job."""
        row = self.find(job_id)
        assert row is not None, f"there is no live job {job_id}"
        return row

    def find(self, job_id: int) -> dict[str, Any] | None:
        """Return the row of a live job, if it is there."""
        with self._connection.cursor(row_factory=dict_row) as cursor:
            query = sql.SQL("SELECT * FROM {} WHERE id = %s").format(self._live)
            return cursor.execute(query, [job_id]).fetchone()

    def dead_row(self, job_id: int) -> dict[str, Any]:
        """Return the row of a dead letter."""
        with self._connection.cursor(row_factory=dict_row) as cursor:
            query = sql.SQL("SELECT * FROM {} WHERE id = %s").format(self._dead)
            row = cursor.execute(query, [job_id]).fetchone()
        assert row is not None, f"there is no dead letter {job_id}"
        return row

    def contents(self) -> tuple[list[tuple[Any, ...]], list[tuple[Any, ...]]]:
        """Return everything that is stored, to compare with later."""
        live, dead = (
            self._connection.execute(
                sql.SQL("SELECT * FROM {} ORDER BY id").format(table)
            ).fetchall()
            for table in (self._live, self._dead)
        )
        return live, dead

    def now(self) -> datetime:
        """Return the store clock."""
        row = self._connection.execute("SELECT clock_timestamp()").fetchone()
        assert row is not None
        moment: datetime = row[0]
        return moment

    @contextmanager
    def spanning(self) -> Iterator[Span]:
        """Return the span of the store clock that the block takes."""
        now = self.now()
        span = Span(now, now)
        yield span
        span.last = self.now()

    def seconds_until(self, job_id: int, column: str) -> float:
        """Return how far ahead a time of a live job is, on the store clock."""
        query = sql.SQL(
            "SELECT extract(epoch FROM {column} - clock_timestamp())::float8 FROM {table}"
            " WHERE id = %s"
        ).format(column=sql.Identifier(column), table=self._live)
        row = self._connection.execute(query, [job_id]).fetchone()
        assert row is not None, f"there is no live job {job_id}"
        assert row[0] is not None, f"{column} of job {job_id} is not set"
        return float(row[0])

    def move(self, job_id: int, column: str, seconds: float) -> None:
        """Set a time of a live job to *seconds* from now."""
        self._move(self._live, job_id, column, seconds)

    def move_death(self, job_id: int, seconds: float) -> None:
        """Set the time of death of a dead letter to *seconds* from now."""
        self._move(self._dead, job_id, "died_at", seconds)

    def lapse(self, *job_ids: int) -> None:
        """Let the claims of these jobs have lapsed a second ago."""
        for job_id in job_ids:
            self.move(job_id, "claim_expires_at", -1)

    def lapse_all(self) -> None:
        """Let every claim have lapsed a second ago."""
        query = "UPDATE {} SET claim_expires_at = now() - interval '1 s' WHERE NOT claimable"
        self._connection.execute(sql.SQL(query).format(self._live))

    def expire_all(self) -> None:
        """Let every job that expires have expired a second ago."""
        query = "UPDATE {} SET expires_at = now() - interval '1 s' WHERE expires_at IS NOT NULL"
        self._connection.execute(sql.SQL(query).format(self._live))

    def set(self, job_id: int, column: str, value: object) -> None:
        """Set a column of a live job."""
        query = sql.SQL("UPDATE {} SET {} = %s WHERE id = %s")
        done = self._connection.execute(
            query.format(self._live, sql.Identifier(column)), [value, job_id]
        )
        assert done.rowcount == 1, f"there is no live job {job_id}"

    def set_death(self, job_ids: list[int], died_at: str) -> None:
        """Set the time of death of dead letters."""
        query = sql.SQL("UPDATE {} SET died_at = %s WHERE id = ANY (%s)")
        done = self._connection.execute(query.format(self._dead), [died_at, job_ids])
        assert done.rowcount == len(job_ids)

    @contextmanager
    def locked(self, job_id: int) -> Iterator[None]:
        """Hold the row lock of a live job, as a transaction next door would."""
        info = self._connection.info
        with psycopg.connect(info.dsn, password=info.password) as other:
            query = sql.SQL("SELECT FROM {} WHERE id = %s FOR UPDATE").format(self._live)
            assert other.execute(query, [job_id]).rowcount == 1
            yield
            other.rollback()

    def _move(self, table: sql.Identifier, job_id: int, column: str, seconds: float) -> None:
        query = sql.SQL(
            "UPDATE {} SET {} = clock_timestamp() + make_interval(secs => %s) WHERE id = %s"
        ).format(table, sql.Identifier(column))
        done = self._connection.execute(query, [seconds, job_id])
        assert done.rowcount == 1, f"there is no job {job_id}"
