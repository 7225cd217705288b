"""No index depends on the order of a locale, which an upgrade of the system may change."""

from __future__ import annotations

import psycopg

from alkstore_postgres import PostgresStore

QUERY = """
SELECT class.relname, attribute.attname, made.collname
FROM pg_class AS class
JOIN pg_attribute AS attribute ON attribute.attrelid = class.oid
JOIN pg_collation AS made ON made.oid = attribute.attcollation
WHERE class.relnamespace = (SELECT oid FROM pg_namespace WHERE nspname = %s)
    AND class.relkind = 'i' AND attribute.attnum > 0
ORDER BY 1, 2
"""


def test_every_index_over_names_compares_bytes(
    store: PostgresStore, schema: str, connection: psycopg.Connection[tuple[str, ...]]
) -> None:
    """A lock whose row the index does not find any more would be given out twice."""
    assert store.queue("q").size() == 0
    found = connection.execute(QUERY, [schema]).fetchall()
    assert {row[:2] for row in found} >= {
        ("locks_pkey", "name"),
        ("schedules_pkey", "name"),
        ("jobs_ready", "queue"),
        ("dead_jobs_by_death", "queue"),
    }
    assert {row[2] for row in found} == {"C"}
