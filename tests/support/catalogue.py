"""A schema as the server's catalogue describes it, in lines to compare."""

from __future__ import annotations

import psycopg

_QUERY = """
SELECT line FROM (
    SELECT 1, class.relname, attribute.attname, class.relname || '.' || attribute.attname || ' '
        || replace(
            format_type(attribute.atttypid, attribute.atttypmod), quote_ident(%(schema)s) || '.', ''
        )
        || CASE WHEN attribute.attnotnull THEN ' not null' ELSE '' END
        || CASE attribute.attidentity WHEN '' THEN '' ELSE ' identity' END
        || coalesce(' default ' || pg_get_expr(preset.adbin, preset.adrelid), '')
    FROM pg_class AS class
    JOIN pg_attribute AS attribute ON attribute.attrelid = class.oid
    LEFT JOIN pg_attrdef AS preset
        ON preset.adrelid = class.oid AND preset.adnum = attribute.attnum
    WHERE class.relnamespace = (SELECT oid FROM pg_namespace WHERE nspname = %(schema)s)
        AND class.relkind = 'r' AND attribute.attnum > 0 AND NOT attribute.attisdropped
    UNION ALL
    SELECT 2, class.relname, '', class.relname || ' with '
        || array_to_string(class.reloptions, ', ')
    FROM pg_class AS class
    WHERE class.relnamespace = (SELECT oid FROM pg_namespace WHERE nspname = %(schema)s)
        AND class.relkind = 'r' AND class.reloptions IS NOT NULL
    UNION ALL
    SELECT 3, tablename, indexname,
        replace(indexdef, quote_ident(schemaname) || '.', '')
    FROM pg_indexes WHERE schemaname = %(schema)s
    UNION ALL
    SELECT 4, '', proname, 'function ' || proname FROM pg_proc
    WHERE pronamespace = (SELECT oid FROM pg_namespace WHERE nspname = %(schema)s)
    UNION ALL
    SELECT 5, '', tgname, 'trigger ' || tgname FROM pg_trigger
    JOIN pg_class AS class ON class.oid = tgrelid
    WHERE class.relnamespace = (SELECT oid FROM pg_namespace WHERE nspname = %(schema)s)
    UNION ALL
    SELECT 6, '', typname, 'domain ' || typname || ' ' || format_type(typbasetype, typtypmod)
        || ' ' || pg_get_constraintdef(bound.oid)
    FROM pg_type JOIN pg_constraint AS bound ON contypid = pg_type.oid
    WHERE typnamespace = (SELECT oid FROM pg_namespace WHERE nspname = %(schema)s)
) AS found (kind, first, second, line)
ORDER BY kind, first COLLATE "C", second COLLATE "C"
"""


def catalogue(conninfo: str, schema: str) -> list[str]:
    """Return what *schema* holds, a line each; nothing when it is not there."""
    with psycopg.connect(conninfo, autocommit=True) as connection:
        rows = connection.execute(_QUERY, {"schema": schema}).fetchall()
    return [row[0] for row in rows]
