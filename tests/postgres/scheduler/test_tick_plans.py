"""What a tick over many schedules reads: the rows that it fires, and no other."""

from __future__ import annotations

import pytest

from alkstore_postgres.database.arrays import LongArray, MomentArray, TidArray
from alkstore_postgres.database.session import Session
from alkstore_postgres.database.statements import Statements
from tests.support.schedules import ScheduleTable, many


@pytest.fixture
def schema(new_schema: str) -> str:
    """Return one in which nothing has been: what is over has left pages."""
    return new_schema


def test_a_tick_over_many_schedules_that_are_not_due_reads_only_the_index(
    table: ScheduleTable, schema: str
) -> None:
    many(table, 5_000, seconds=-3_600)
    table.run("ANALYZE {schedules}")
    plan = table.run(
        "EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) SELECT name FROM {schedules}"
        " WHERE paused IS NOT TRUE AND quarantine IS NULL AND next_fire_at <= statement_timestamp()"
        " ORDER BY next_fire_at LIMIT 500 FOR UPDATE SKIP LOCKED"
    ).fetchone()
    assert plan is not None
    assert "schedules_due" in str(plan[0])
    assert plan[0][0]["Plan"]["Shared Hit Blocks"] < 10


def test_firing_some_of_many_schedules_reads_only_their_rows(
    table: ScheduleTable, schema: str
) -> None:
    """Field case B112: however many fire, the table is not read from end to end."""
    many(table, 20_000)
    table.run("VACUUM ANALYZE {schedules}")
    fire = Statements("alkstore_postgres.scheduler", "tick.sql", schema)["fire"]
    session = Session(table._connection)
    rows = session.fetch_raw(b"SELECT ctid, next_fire_at FROM %s.schedules" % quoted(schema))
    for count in (1, 2_000, 15_000):
        moments = MomentArray([moment for _, moment in rows[:count]])
        values = {
            "owners": LongArray(range(1, count + 1)), "boundaries": moments, "max_attempts": 3,
            "visibility_timeout": 300.0, "base_backoff": 60.0,
            "places": TidArray([place for place, _ in rows[:count]]), "next_fire_ats": moments,
            "last_fire_ats": moments, "skipped": LongArray([0] * count),
        }  # fmt: skip
        plan = "\n".join(row[0] for row in session.fetch_all(b"EXPLAIN " + fire, values))
        assert plan.count("Tid Scan on schedules") == 1
        assert "Seq Scan" not in plan


def quoted(schema: str) -> bytes:
    return b'"%s"' % schema.encode()
