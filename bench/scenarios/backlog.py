"""What a claim reads beside a backlog."""

from __future__ import annotations

import json
from typing import Any

import alkstore_postgres
from alkstore_postgres import PostgresStore
from alkstore_postgres.database.cursor import EngineCursor
from alkstore_postgres.queue.claimer import _Claim
from bench.bench import Bench
from bench.cases import ours
from bench.figures import Metric
from bench.registry import scenario

_ROWS = """
INSERT INTO alkstore.jobs (
    queue, payload, priority, run_at, max_attempts, visibility_timeout, base_backoff, enqueued_at
)
SELECT 'bench', '1', %(priority)s,
       statement_timestamp() + %(delay)s * interval '1 second', 3, 300, 60,
       statement_timestamp()
FROM generate_series(1, %(count)s)
"""
_DEAD = """
INSERT INTO alkstore.dead_jobs (
    id, enqueued_at, died_at, visibility_timeout, base_backoff, attempts, max_attempts,
    priority, queue, error, payload
)
SELECT n, statement_timestamp(), statement_timestamp(), 300, 60, 3, 3, 0, 'bench', 'e', '1'
FROM generate_series(1000000000, 1000000000 + %(count)s) AS n
"""


@scenario("backlog", "Buffers read by one claim")
def run(bench: Bench) -> None:
    """Pages (cached or not) that a claim of 1 and of 100 touches, of which some are written:
    in a queue with just 1,000 ready jobs, and with a backlog beside them of ready jobs, of
    jobs delayed at a higher priority, or of dead letters. The claim is rolled back.
    """  # noqa: D205 - shown in the report as it is
    count = bench.pick(50_000, 1_000_000)
    for name, statement, extra in (
        ("nothing beside", "", {}),
        (f"{count:,} ready", _ROWS, {"priority": 0, "delay": -1}),
        (f"{count:,} delayed at a higher priority", _ROWS, {"priority": 5, "delay": 86_400}),
        (f"{count:,} dead letters", _DEAD, {}),
    ):
        with bench.lend(ours()) as (_, url), alkstore_postgres.open(url) as store:
            with bench.server.connect(url) as connection:
                connection.execute(_ROWS, {"priority": 0, "delay": -2, "count": 1_000})
                if statement:
                    connection.execute(statement, {**extra, "count": count})
                connection.execute("VACUUM ANALYZE")
            for limit in (1, 100):
                metric = Metric(f"claim of {limit}, buffers", "pages", "lower")
                bench.results.add("backlog", metric, name, "ours", _buffers(store, limit))


def _buffers(store: PostgresStore, limit: int) -> float:
    """Return how many pages a claim touches, the second time, in warm caches."""
    parts = store._parts  # noqa: SLF001 - the claim's statement has no public name
    claimer = parts.queues.claimer
    claim = _Claim("bench", "bench", limit)
    query = b"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) " + claimer._statement(claim)  # noqa: SLF001
    touched = 0
    with parts.database.connection() as connection:
        for _ in range(2):
            with connection.transaction(force_rollback=True):
                cursor = EngineCursor(connection)
                cursor.run(query, claim.params(), prepare=False)
                row = cursor.fetchone()
            top = _plan(row)
            touched = top["Shared Hit Blocks"] + top["Shared Read Blocks"]
    return float(touched)


def _plan(row: tuple[Any, ...] | None) -> dict[str, Any]:
    if row is None:
        msg = "no plan came"
        raise RuntimeError(msg)
    found = json.loads(row[0]) if isinstance(row[0], str | bytes) else row[0]
    plan: dict[str, Any] = found[0]["Plan"]
    return plan
