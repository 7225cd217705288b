"""Tables full of jobs, made by the server itself."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import psycopg
from psycopg import sql

ROWS = int(os.environ.get("ALKSTORE_PLAN_ROWS", "200000"))
"""How many jobs are in the way: a million and more when somebody has the time."""

FEW = 500
"""How many are wanted beside them."""

_JOBS = """
INSERT INTO {schema}.jobs (
    queue, payload, priority, run_at, max_attempts, visibility_timeout, base_backoff,
    enqueued_at, claimable, claim_id, claim_expires_at, attempts
)
SELECT
    %(queue)s, '{{"some":"payload"}}', %(priority)s,
    now() + make_interval(secs => %(due)s + number / 1e6), 3, 300, 60, now(),
    not %(held)s, CASE WHEN %(held)s THEN gen_random_uuid() END,
    CASE WHEN %(held)s THEN now() + interval '1 hour' + number * interval '1 us' END,
    CASE WHEN %(held)s THEN 1 ELSE 0 END
FROM generate_series(1, %(count)s) AS number
"""
_DEAD = """
INSERT INTO {schema}.dead_jobs (
    id, enqueued_at, died_at, visibility_timeout, base_backoff, attempts, max_attempts,
    priority, queue, error, payload
)
SELECT
    1000000000 + %(first)s + number, now(), now() - number / 100 * interval '1 s', 300, 60, 3, 3, 0,
    %(queue)s, 'it failed', '{{"some":"payload"}}'
FROM generate_series(1, %(count)s) AS number
"""


class Backlog:
    """Fills the tables of a schema.

    Args:
        connection: An autocommit connection.
        schema: The store's schema; its tables are no longer analysed by themselves.
    """

    def __init__(self, connection: psycopg.Connection[Any], schema: str) -> None:
        self._connection = connection
        self._schema = sql.Identifier(schema)
        self._dead = 0
        for table in ("jobs", "dead_jobs"):
            self._run(f"ALTER TABLE {{schema}}.{table} SET (autovacuum_enabled = false)")

    def jobs(
        self, queue: str, count: int, priority: int = 0, due: float = -3600, *, held: bool = False
    ) -> None:
        """Store jobs that are due in *due* seconds; *held* ones are claimed for an hour."""
        params = {"queue": queue, "count": count, "priority": priority, "due": due, "held": held}
        self._run(_JOBS, params)

    def dead(self, queue: str, count: int) -> None:
        """Store dead letters, a hundred of each moment."""
        self._run(_DEAD, {"queue": queue, "count": count, "first": self._dead})
        self._dead += count

    def dead_seconds(self) -> float:
        """Return how long ago the first dead letter of ``mail`` died, in seconds."""
        query = sql.SQL(
            "SELECT coalesce(extract(epoch FROM now() - min(died_at)), 0)::float8"
            " FROM {}.dead_jobs WHERE queue = 'mail'"
        )
        row = self._connection.execute(query.format(self._schema)).fetchone()
        assert row is not None
        return float(row[0])

    def analyze(self) -> None:
        """Let the server look at the tables, as autovacuum does."""
        for table in ("jobs", "dead_jobs"):
            self._run(f"VACUUM ANALYZE {{schema}}.{table}")

    def lapse(self, job_ids: list[int]) -> None:
        """Let the claims of these jobs have lapsed a second ago."""
        self._run(
            "UPDATE {schema}.jobs SET claim_expires_at = now() - interval '1 s'"
            " WHERE id = ANY (%(ids)s)",
            {"ids": job_ids},
        )

    def give_back(self, queue: str) -> None:
        """Let all claims of *queue* have lapsed, and a sweep have given the jobs back."""
        self._run(
            "UPDATE {schema}.jobs SET"
            " claimable = true, claim_expires_at = claim_expires_at - interval '1 day'"
            " WHERE queue = %(queue)s AND NOT claimable",
            {"queue": queue},
        )

    def rows_read_in_sequence(self) -> int:
        """Return how many rows of jobs the server has read by scans of the whole table."""
        query = "SELECT seq_tup_read FROM pg_stat_all_tables WHERE relid = %s::regclass"
        table = sql.Identifier(*self._schema._obj, "jobs").as_string()
        row = self._connection.execute(query, [table]).fetchone()
        assert row is not None
        return int(row[0])

    def _run(self, text: str, params: dict[str, Any] | None = None) -> None:
        self._connection.execute(sql.SQL(text).format(schema=self._schema), params)


def empty(backlog: Backlog) -> None:
    """Nothing, and the server has never looked."""


def empty_and_analysed(backlog: Backlog) -> None:
    """Nothing, and the server knows."""
    backlog.analyze()


def ready(backlog: Backlog) -> None:
    """All ready."""
    backlog.jobs("mail", ROWS)
    backlog.analyze()


def delayed_above(backlog: Backlog) -> None:
    """All delayed at the highest priority; a few ready at a lower one."""
    backlog.jobs("mail", ROWS, priority=32_767, due=3600)
    backlog.jobs("mail", FEW, priority=-5)
    backlog.analyze()


def dead(backlog: Backlog) -> None:
    """All dead; a few ready."""
    backlog.dead("mail", ROWS)
    backlog.jobs("mail", FEW)
    backlog.analyze()


def held(backlog: Backlog) -> None:
    """All held by claims; a few ready."""
    backlog.jobs("mail", ROWS, held=True)
    backlog.jobs("mail", FEW)
    backlog.analyze()


def small_beside_large(backlog: Backlog) -> None:
    """A few, in a queue beside one with all."""
    backlog.jobs("bulk", ROWS)
    backlog.dead("bulk", ROWS)
    backlog.jobs("mail", FEW)
    backlog.dead("mail", FEW)
    backlog.analyze()


def large_beside_small(backlog: Backlog) -> None:
    """All, in a queue beside many small ones."""
    backlog.jobs("mail", ROWS)
    for number in range(50):
        backlog.jobs(f"small {number}", 20)
    backlog.analyze()


def never_analysed(backlog: Backlog) -> None:
    """All ready and as many dead, and the server has never looked."""
    backlog.jobs("mail", ROWS)
    backlog.dead("mail", ROWS)


def filled_after_a_look(backlog: Backlog) -> None:
    """All ready and as many dead since the server has looked and found nothing."""
    backlog.analyze()
    never_analysed(backlog)


BACKLOGS: list[Callable[[Backlog], None]] = [
    empty,
    empty_and_analysed,
    ready,
    delayed_above,
    dead,
    held,
    small_beside_large,
    large_beside_small,
    never_analysed,
    filled_after_a_look,
]
