"""Moving a job's times by hand, where a test would have to sleep otherwise."""

from __future__ import annotations

from typing import Any

import psycopg
from psycopg import sql


class Rows:
    """The job rows of a schema.

    Args:
        connection: An autocommit connection of the test's own.
        schema: The store's schema.
    """

    def __init__(self, connection: psycopg.Connection[Any], schema: str) -> None:
        self._connection = connection
        self._jobs = sql.Identifier(schema, "jobs")

    def make_due(self) -> None:
        """Let every pending job be due now."""
        self._run("UPDATE {} SET run_at = now() WHERE claim_id IS NULL AND run_at > now()")

    def lapse(self) -> None:
        """Let every claim have lapsed a second ago."""
        self._run(
            "UPDATE {} SET claim_expires_at = now() - interval '1 second'"
            " WHERE claim_id IS NOT NULL"
        )

    def damage(self, job_id: int) -> None:
        """Make the payload of a job undecodable."""
        self._run("UPDATE {} SET payload = 'not json' WHERE id = %s", job_id)

    def gap(self, job_id: int) -> float:
        """Return in how many seconds a job is due."""
        text = "SELECT extract(epoch FROM run_at - now())::float8 FROM {} WHERE id = %s"
        row = self._run(text, job_id).fetchone()
        assert row is not None
        return float(row[0])

    def held_for(self, job_id: int) -> float:
        """Return for how many seconds the claim of a job still holds."""
        text = "SELECT extract(epoch FROM claim_expires_at - now())::float8 FROM {} WHERE id = %s"
        row = self._run(text, job_id).fetchone()
        assert row is not None
        return float(row[0])

    def _run(self, text: str, *values: object) -> psycopg.Cursor[Any]:
        return self._connection.execute(sql.SQL(text).format(self._jobs), values)
