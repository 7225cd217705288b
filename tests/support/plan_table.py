"""Print what one claim reads over each backlog: ``python -m tests.support.plan_table URL``.

``ALKSTORE_PLAN_ROWS`` sets how many jobs are in the way.
"""

from __future__ import annotations

import secrets
import sys
from collections.abc import Callable, Iterator

import psycopg
from psycopg import sql

import alkstore_postgres
from tests.support.backlogs import BACKLOGS, ROWS, Backlog
from tests.support.plans import Explainer, Plan
from tests.support.queue_statements import QueueStatements

COLUMNS = ("claim 1", "claim 100", "sweep and claim 1", "claim of an empty queue", "ack", "stats")


def measured(conninfo: str, fill: Callable[[Backlog], None]) -> dict[str, list[Plan]]:
    """Return the plans of every statement over one backlog, in a schema of its own."""
    schema = f"plans {secrets.token_hex(6)}"
    with (
        psycopg.connect(conninfo, autocommit=True) as connection,
        psycopg.connect(conninfo, autocommit=True) as explaining,
    ):
        try:
            with alkstore_postgres.open(conninfo, schema) as store:
                backlog = Backlog(connection, schema)
                fill(backlog)
                return QueueStatements(store, backlog, Explainer(explaining)).run()
        finally:
            drop = sql.SQL("DROP SCHEMA IF EXISTS {} CASCADE").format(sql.Identifier(schema))
            connection.execute(drop)


def lines(conninfo: str) -> Iterator[str]:
    """Yield the lines of the table: pages touched, for known and for unknown values."""
    with psycopg.connect(conninfo) as connection:
        version = connection.info.server_version // 10_000
    yield f"PostgreSQL {version}, {ROWS:,} rows in the way. Pages that a statement touches, cached"
    yield "or not: planned for its values / once for all values."
    yield ""
    yield "| backlog | " + " | ".join(COLUMNS) + " |"
    yield "| --- |" + " ---: |" * len(COLUMNS)
    for fill in BACKLOGS:
        plans = measured(conninfo, fill)
        cells = []
        for name in COLUMNS:
            runs = plans.get(name, [])
            known, unknown = runs[::2], runs[1::2]
            pages = [str(sum(plan.buffers for plan in part)) for part in (known, unknown)]
            cells.append(" / ".join(pages) if runs else "")
        yield f"| {fill.__doc__} | " + " | ".join(cells) + " |"


if __name__ == "__main__":
    for line in lines(sys.argv[1]):
        sys.stdout.write(line + "\n")
        sys.stdout.flush()
