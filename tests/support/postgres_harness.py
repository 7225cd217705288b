"""The PostgreSQL engine with hands on its clock: one harness for a schema."""

from __future__ import annotations

from contextlib import ExitStack
from datetime import datetime
from typing import Any

import psycopg
from psycopg import sql

import alkstore_postgres
from alkstore.codec import Codec
from alkstore.names import SCHEDULER_LOCK
from alkstore.traits import Store
from alkstore_postgres import PostgresStore
from alkstore_postgres.database import store_clock
from alkstore_postgres.wakes.channel import wake_channel
from tests.support.schemas import Schemas

CLOCK = """
CREATE TABLE {schema}.clock (at timestamp with time zone, ahead interval NOT NULL);
INSERT INTO {schema}.clock VALUES (NULL, '0');
CREATE FUNCTION {schema}.of_statement() RETURNS timestamp with time zone
    STABLE PARALLEL SAFE LANGUAGE sql SET search_path = pg_catalog
    AS $$ SELECT coalesce(at, statement_timestamp() + ahead) FROM {schema}.clock $$;
CREATE FUNCTION {schema}.of_moment() RETURNS timestamp with time zone
    VOLATILE LANGUAGE sql SET search_path = pg_catalog
    AS $$ SELECT coalesce(at, clock_timestamp() + ahead) FROM {schema}.clock $$;
"""
"""What a schema for a harness holds besides: the clock is a row, `at` where it stands still,
`ahead` of the server's where it goes on."""

# Whoever waits is told to look again: it cannot know that time has passed.
_WAKE_ALL = """
SELECT pg_notify({channel}, name) FROM (
    SELECT queue FROM {schema}.jobs UNION SELECT name FROM {schema}.locks UNION SELECT {scheduler}
) AS waited_for (name)
"""


class PostgresHarness:
    """An `alkstore.testing.EngineHarness` of PostgreSQL, in a schema to itself.

    Args:
        schemas: Schemas with a `CLOCK`.
        frozen: Let the store clock stand still between two calls of `advance`, to the
            microsecond; otherwise it goes on by itself, ahead of the server's.
        start: Where a frozen clock starts; ``None``: the server's time.
    """

    def __init__(
        self, schemas: Schemas, *, frozen: bool = True, start: datetime | None = None
    ) -> None:
        self._conninfo = schemas.conninfo
        self.schema = schemas.take()
        self._closing = ExitStack()
        self._closing.callback(schemas.give_back, self.schema)
        self._connection = schemas.connected()
        self._run(
            "UPDATE {schema}.clock SET at = CASE WHEN {frozen} THEN {start} END, ahead = '0'",
            frozen=sql.Literal(frozen),
            start=sql.SQL("pg_catalog.now()") if start is None else sql.Literal(start),
        )
        quoted = sql.Identifier(self.schema).as_string(self._connection)
        functions = store_clock.ClockFunctions(f"{quoted}.of_statement()", f"{quoted}.of_moment()")
        self._closing.enter_context(store_clock.replaced(self.schema, functions))

    def open(
        self,
        *,
        codec: Codec | None = None,
        max_payload_bytes: int | None = None,
        **options: Any,
    ) -> PostgresStore:
        """Open a store in this schema; it is closed with the harness."""
        if codec is not None:
            options["codec"] = codec
        if max_payload_bytes is not None:
            options["max_payload_bytes"] = max_payload_bytes
        store = alkstore_postgres.open(self._conninfo, self.schema, **options)
        return self._closing.enter_context(store)

    def now(self) -> datetime:
        """Return the store clock."""
        row = self._run("SELECT {schema}.of_moment()").fetchone()
        assert row is not None
        moment: datetime = row[0]
        return moment

    def advance(self, seconds: float) -> None:
        """Let time pass, and tell everybody who waits to look again."""
        self._run(
            "UPDATE {schema}.clock SET at = at + make_interval(secs => {seconds}),"
            " ahead = ahead + make_interval(secs => {seconds})",
            seconds=sql.Literal(seconds),
        )
        self._run(
            _WAKE_ALL,
            channel=sql.Literal(wake_channel(self.schema)),
            scheduler=sql.Literal(SCHEDULER_LOCK),
        )

    def tick(self, store: Store) -> int:
        """Fire what is due without any lease; return how many jobs were fired."""
        assert isinstance(store, PostgresStore)
        return store.tick()

    def damage_schedule(self, name: str) -> None:
        """Give a schedule a spec that means nothing."""
        query = sql.SQL("UPDATE {} SET spec = 'never' WHERE name = %s")
        table = sql.Identifier(self.schema, "schedules")
        assert self._connection.execute(query.format(table), [name]).rowcount == 1

    def lease_owner(self, name: str) -> str | None:
        """Return who holds a lease."""
        query = sql.SQL("SELECT owner FROM {} WHERE name = %s")
        table = sql.Identifier(self.schema, "locks")
        row = self._connection.execute(query.format(table), [name]).fetchone()
        return None if row is None else row[0]

    def take_lease(self, name: str) -> None:
        """Give a lease to somebody else."""
        query = sql.SQL(
            "UPDATE {} SET owner = 'thief', token = token + 1,"
            " expires_at = %s + interval '1 year' WHERE name = %s"
        )
        table = sql.Identifier(self.schema, "locks")
        assert self._connection.execute(query.format(table), [self.now(), name]).rowcount == 1

    def close(self) -> None:
        """Close the stores and give the schema back."""
        self._closing.close()

    def _run(self, text: str, **values: sql.Composable) -> psycopg.Cursor[Any]:
        query = sql.SQL(text).format(schema=sql.Identifier(self.schema), **values)
        return self._connection.execute(query)
