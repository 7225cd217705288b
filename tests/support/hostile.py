"""A schema whose decoys fail when a statement means one of them by mistake."""

from __future__ import annotations

from itertools import product
from typing import Any

import psycopg
from psycopg import sql

_TABLES = ("dead_jobs", "jobs", "locks", "migrations", "schedules")

_NUMBERS = ("int2", "int4", "int8", "float8", "numeric")
_COMPARED: tuple[tuple[str, str], ...] = (
    *product(_NUMBERS, _NUMBERS),
    *((kind, kind) for kind in ("bool", "bytea", "name", "oid", "text", "timestamptz", "uuid")),
    *((kind, kind) for kind in ("int8[]", "interval", "text[]", "timestamptz[]", "uuid[]")),
    ("name", "text"),
    ("text", "name"),
)
_COMPUTED: tuple[tuple[str, str], ...] = (
    *product(_NUMBERS, _NUMBERS),
    ("timestamptz", "interval"),
    ("timestamptz", "timestamptz"),
    ("interval", "interval"),
)

_FUNCTIONS = (
    "clock_timestamp()",
    "count()",
    "current_setting(text)",
    "isfinite(timestamptz)",
    "make_interval(int4, int4, int4, int4, int4, int4, float8)",
    "max(int4)",
    "max(timestamptz)",
    "min(int4)",
    "min(timestamptz)",
    "now()",
    "pg_advisory_xact_lock(int8)",
    "pg_notify(text, text)",
    "set_config(text, text, bool)",
    "statement_timestamp()",
    "unnest(anyarray)",
)

_TYPES = ("bool", "bytea", "float8", "int2", "int4", "int8", "name", "text", "timestamptz", "uuid")


def create_decoys(connection: psycopg.Connection[Any], schema: str) -> None:
    """Fill the new *schema* with decoys of the names that statements use.

    Raised by each of them: ``decoy``.
    """
    place = sql.Identifier(schema)

    def run(statement: str) -> None:
        connection.execute(sql.SQL(statement).format(place))

    run("CREATE SCHEMA {}")
    for table in _TABLES:
        run(f"CREATE TABLE {{}}.{table} (decoy int)")
    for kinds, operators in (
        (_COMPARED, ("=", "<", ">", "<=", ">=", "<>")),
        (_COMPUTED, ("+", "-")),
    ):
        for number, (left, right) in enumerate(kinds):
            name = f"bite_{len(operators)}_{number}"
            returns = "boolean" if len(operators) > 2 else f"pg_catalog.{left}"
            run(
                f"CREATE FUNCTION {{}}.{name}(pg_catalog.{left}, pg_catalog.{right})"
                f" RETURNS {returns} LANGUAGE plpgsql AS $$ BEGIN RAISE 'decoy'; END $$"
            )
            for operator in operators:
                run(
                    f"CREATE OPERATOR {{0}}.{operator}"
                    f" (FUNCTION = {{0}}.{name},"
                    f" LEFTARG = pg_catalog.{left}, RIGHTARG = pg_catalog.{right})"
                )
    for function in _FUNCTIONS:
        name, _, rest = function.partition("(")
        arguments = ", ".join(
            kind if kind.startswith("any") else f"pg_catalog.{kind}"
            for kind in rest.rstrip(")").split(", ")
            if kind
        )
        returns = "anyelement" if "any" in arguments else "pg_catalog.text"
        run(
            f"CREATE FUNCTION {{}}.{name}({arguments}) RETURNS {returns}"
            " LANGUAGE plpgsql AS $$ BEGIN RAISE 'decoy'; END $$"
        )
    for kind in _TYPES:
        run(f"CREATE DOMAIN {{}}.{kind} AS pg_catalog.point CHECK (false)")
