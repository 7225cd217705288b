"""Schemas that are migrated once and used by one test after another."""

from __future__ import annotations

import secrets
from collections import deque
from contextlib import suppress
from typing import Any

import psycopg
from psycopg import sql

import alkstore_postgres

# What a migration leaves in the catalogue, a statistic or a row of its own changes when somebody
# alters, vacuums or analyses what is in there. Rows of the catalogue are told apart by xmin: each
# is a new version once it was changed.
_STATE = """
WITH space AS (SELECT oid AS id, xmin AS version FROM pg_namespace WHERE nspname = {name}),
class AS (
    SELECT pg_class.*, pg_class.xmin AS version
    FROM pg_class JOIN space ON relnamespace = space.id
)
SELECT string_agg(fact, E'\\n' ORDER BY fact COLLATE "C") FROM (
    SELECT concat_ws(' ', 'space', id, version) FROM space
    UNION ALL
    SELECT concat_ws(' ', 'class', oid, version, relfilenode, relpages, reltuples) FROM class
    UNION ALL
    SELECT concat_ws(' ', 'column', attrelid, attnum, pg_attribute.xmin)
    FROM pg_attribute JOIN class ON attrelid = class.oid
    UNION ALL
    SELECT concat_ws(' ', 'index', indexrelid, pg_index.xmin)
    FROM pg_index JOIN class ON indexrelid = class.oid
    UNION ALL
    SELECT concat_ws(' ', 'sequence', seqrelid, pg_sequence.xmin)
    FROM pg_sequence JOIN class ON seqrelid = class.oid
    UNION ALL
    SELECT concat_ws(' ', 'trigger', pg_trigger.oid, pg_trigger.xmin)
    FROM pg_trigger JOIN class ON tgrelid = class.oid
    UNION ALL
    SELECT concat_ws(' ', 'rule', pg_rewrite.oid, pg_rewrite.xmin)
    FROM pg_rewrite JOIN class ON ev_class = class.oid
    UNION ALL
    SELECT concat_ws(' ', 'policy', pg_policy.oid, pg_policy.xmin)
    FROM pg_policy JOIN class ON polrelid = class.oid
    UNION ALL
    SELECT concat_ws(' ', 'constraint', pg_constraint.oid, pg_constraint.xmin)
    FROM pg_constraint JOIN space ON connamespace = space.id
    UNION ALL
    SELECT concat_ws(' ', 'function', pg_proc.oid, pg_proc.xmin)
    FROM pg_proc JOIN space ON pronamespace = space.id
    UNION ALL
    SELECT concat_ws(' ', 'type', pg_type.oid, pg_type.xmin)
    FROM pg_type JOIN space ON typnamespace = space.id
    UNION ALL
    SELECT concat_ws(' ', 'statistic', starelid, staattnum)
    FROM pg_statistic JOIN class ON starelid = class.oid
    UNION ALL
    SELECT concat_ws(' ', 'dependent', classid, objid, objsubid) FROM pg_depend
    WHERE (refclassid = 'pg_namespace'::regclass AND refobjid IN (SELECT id FROM space))
        OR (refclassid = 'pg_class'::regclass AND refobjid IN (SELECT oid FROM class))
    UNION ALL
    SELECT concat_ws(' ', 'comment', objoid, objsubid, description) FROM pg_description
    WHERE objoid IN (SELECT id FROM space UNION ALL SELECT oid FROM class)
    UNION ALL
    SELECT concat_ws(' ', 'migration', migrations.*, migrations.xmin) FROM {schema}.migrations
) AS facts (fact)
"""

# The most that a table or an index has grown by is what counts: plans follow single ones.
_PAGES = """
SELECT array_agg(
    pg_relation_size(pg_class.oid) / current_setting('block_size')::integer ORDER BY pg_class.oid
)
FROM pg_class JOIN pg_namespace AS space ON relnamespace = space.oid
WHERE nspname = {name} AND relkind IN ('r', 'i')
"""

_MORE_PAGES = 4

# Whoever holds a lock has not ended what it does there: a session that was left behind, the
# statement of a process that was killed, or a prepared transaction, which has no process.
_BUSY = """
SELECT EXISTS (
    SELECT FROM pg_locks
    JOIN pg_class ON pg_class.oid = relation
    JOIN pg_namespace AS space ON relnamespace = space.oid
    WHERE nspname = {name} AND pid IS DISTINCT FROM pg_backend_pid()
)
"""

_EMPTY = """
DELETE FROM {schema}.jobs;
DELETE FROM {schema}.dead_jobs;
DELETE FROM {schema}.locks;
DELETE FROM {schema}.schedules;
SELECT setval(format('%I.%I', {name}, 'jobs_id_seq'), 1, false);
"""


class Schemas:
    """Hands out schemas in which nothing has been stored since they were migrated.

    To migrate takes some fifteen times as long as to empty the tables. A schema is only used
    again when the catalogue says that nobody has touched more than rows, when no table or index
    has grown by more than a few pages, and when nobody is busy in it. It is looked at and emptied
    when it is handed out, not when it is given back: by then all of the test that had it is over.
    What counts pages needs a schema in which nothing has been.

    Args:
        conninfo: Where the server is, for a superuser.
        with_more: SQL that makes what each schema shall hold besides, with ``{schema}`` in it.
    """

    def __init__(self, conninfo: str, *, with_more: str = "") -> None:
        self.conninfo = conninfo
        self._with_more = with_more
        self._free: deque[str] = deque()
        self._made: dict[str, tuple[str, list[int]]] = {}
        self._connection: psycopg.Connection[Any] | None = None

    def take(self) -> str:
        """Return the name of a schema, which nobody else has until it is given back."""
        while self._free:
            name = self._free.popleft()
            if self._emptied(name):
                return name
        name = f"t {secrets.token_hex(6)}"
        connection = self.connected()
        self._made[name] = "", []
        alkstore_postgres.migrate(self.conninfo, name)
        if self._with_more:
            _run(connection, self._with_more, name)
        self._made[name] = _state(connection, name), _pages(connection, name)
        return name

    def give_back(self, name: str) -> None:
        """Let somebody else have a schema."""
        self._free.append(name)

    def connected(self) -> psycopg.Connection[Any]:
        """Return a connection that is kept: its session has the catalogue at hand."""
        if self._connection is not None:
            # A test may have ended all sessions, or have left this one in a transaction.
            with suppress(psycopg.Error):
                self._connection.execute("SELECT")
            if self._connection.info.transaction_status != psycopg.pq.TransactionStatus.IDLE:
                self._connection.close()
                self._connection = None
        if self._connection is None:
            self._connection = psycopg.connect(self.conninfo, autocommit=True)
            # A session that a test left behind must not hold up the others for ever.
            self._connection.execute("SET lock_timeout = '20s'")
        return self._connection

    def close(self) -> None:
        """Drop every schema."""
        connection = self.connected()
        for name in self._made:
            _run(connection, "DROP SCHEMA IF EXISTS {schema} CASCADE", name)
        connection.close()

    def _emptied(self, name: str) -> bool:
        """Empty a schema, or leave it alone for good and return ``False``."""
        connection = self.connected()
        state, pages = self._made[name]
        try:
            with connection.transaction():
                if (
                    _run(connection, _BUSY, name).fetchone() != (False,)
                    or _state(connection, name) != state
                    or any(
                        now > then + _MORE_PAGES
                        for now, then in zip(_pages(connection, name), pages, strict=True)
                    )
                ):
                    return False
                _run(connection, _EMPTY, name)
        except psycopg.Error:  # what was there is not there any more, or somebody holds it
            return False
        return True


def _state(connection: psycopg.Connection[Any], name: str) -> str:
    row = _run(connection, _STATE, name).fetchone()
    assert row is not None
    return str(row[0])


def _pages(connection: psycopg.Connection[Any], name: str) -> list[int]:
    row = _run(connection, _PAGES, name).fetchone()
    assert row is not None
    return list(row[0])


def _run(connection: psycopg.Connection[Any], text: str, name: str) -> psycopg.Cursor[Any]:
    query = sql.SQL(text).format(schema=sql.Identifier(name), name=sql.Literal(name))
    return connection.execute(query)
