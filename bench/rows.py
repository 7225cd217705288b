"""Rows by the million, written by the server itself."""

from __future__ import annotations

from typing import Any, Literal

import psycopg

Kind = Literal["waiting", "delayed", "dead"]

_JOBS = """
INSERT INTO alkstore.jobs (
    queue, payload, priority, run_at, max_attempts, visibility_timeout, base_backoff, enqueued_at
)
SELECT %(queue)s || CASE WHEN %(queues)s::int > 1 THEN mod(n, %(queues)s)::text ELSE '' END, '1',
       %(priority)s, statement_timestamp() + %(delay)s * interval '1 second', 3, 300, 60,
       statement_timestamp()
FROM generate_series(1, %(count)s) AS n
"""
_DEAD = """
INSERT INTO alkstore.dead_jobs (
    id, enqueued_at, died_at, visibility_timeout, base_backoff, attempts, max_attempts,
    priority, queue, error, payload
)
SELECT n, statement_timestamp(), statement_timestamp(), 300, 60, 3, 3, 0, %(queue)s, 'e', '1'
FROM generate_series(
    1000000000 + (SELECT count(*) FROM alkstore.dead_jobs),
    1000000000 + (SELECT count(*) FROM alkstore.dead_jobs) + %(count)s - 1
) AS n
"""
_FIRST = {"priority": 0, "delay": -86_400}
_BESIDE: dict[Kind, dict[str, Any]] = {
    "waiting": {"priority": 0, "delay": -1},
    "delayed": {"priority": 5, "delay": 86_400},
}


def first(connection: psycopg.Connection[Any], queue: str, count: int, queues: int = 1) -> None:
    """Store ready jobs that come before all others.

    Args:
        connection: In autocommit mode.
        queue: The queue's name, or with several queues what their names begin with; a number
            follows.
        count: How many, over all queues.
        queues: How many queues.
    """
    _fill(connection, _JOBS, {"queue": queue, "queues": queues, "count": count, **_FIRST})


def beside(connection: psycopg.Connection[Any], queue: str, kind: Kind, count: int) -> None:
    """Store rows that a claim of the first jobs should not notice.

    Args:
        connection: In autocommit mode.
        queue: The queue's name.
        kind: Ready jobs behind the first ones, jobs delayed by a day at a higher priority, or
            dead letters.
        count: How many.
    """
    if kind == "dead":
        _fill(connection, _DEAD, {"queue": queue, "count": count})
    else:
        params = {"queue": queue, "queues": 1, "count": count, **_BESIDE[kind]}
        _fill(connection, _JOBS, params)


def settle(connection: psycopg.Connection[Any]) -> None:
    """Vacuum and analyse, as the server does by itself a while after such a load.

    The indexes as well: by itself it leaves them alone while few pages have anything dead, and
    every claim would step over what earlier ones have left there.
    """
    connection.execute("VACUUM (INDEX_CLEANUP ON, ANALYZE)")


def _fill(connection: psycopg.Connection[Any], statement: str, params: dict[str, Any]) -> None:
    if not params["count"]:
        return
    # Such a load need not survive anything.
    connection.execute("SET synchronous_commit = off")
    connection.execute(statement, params)
    connection.execute("RESET synchronous_commit")
