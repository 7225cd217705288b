"""The plans of the statements that a store sends, as the server really runs them."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

import psycopg
import pytest
from psycopg import sql

from alkstore_postgres.database.arrays import UuidArray, UuidBytes
from alkstore_postgres.database.cursor import EngineCursor, Params
from tests.support.cursors import Run, around_statements

_PARAMETER = re.compile(rb"%\((\w+)\)s|%%")

MODES = ("force_custom_plan", "force_generic_plan")
"""Planned for the values of the parameters, and once for all values."""


@dataclass(frozen=True)
class Plan:
    """One run of one statement.

    Attributes:
        mode: One of `MODES`.
        query: The statement.
        nodes: The nodes of the plan, whatever their depth.
        buffers: How many pages it touched, cached or not.
        milliseconds: How long it took on the server.
    """

    mode: str
    query: str
    nodes: list[dict[str, Any]]
    buffers: int
    milliseconds: float

    def rows_scanned_in_sequence(self) -> int:
        """Return how many rows it read by going through whole tables."""
        scans = [node for node in self.nodes if node["Node Type"] == "Seq Scan"]
        return sum(_rows_read(scan) for scan in scans)

    def is_sequential(self) -> bool:
        """Return whether it goes through a whole table, however small."""
        return any(node["Node Type"] == "Seq Scan" for node in self.nodes)

    def rows_sorted(self) -> int:
        """Return how many rows went through sorts."""
        sorts = [node for node in self.nodes if node["Node Type"].endswith("Sort")]
        return sum(_rows_read(sort["Plans"][0]) for sort in sorts)

    def indexes(self) -> set[str]:
        """Return the indexes that it used."""
        return {node["Index Name"] for node in self.nodes if "Index Name" in node}


def _spoken(value: Any) -> Any:
    """Return *value* as the driver itself can write it into a statement."""
    if isinstance(value, UuidArray):
        return [UUID(bytes=one) for one in value]
    return UUID(bytes=value) if isinstance(value, UuidBytes) else value


@dataclass
class Explainer:
    """Explains every statement of a store before it runs.

    Args:
        connection: A connection of the explainer's own.

    Attributes:
        plans: The plans so far, in order.
    """

    connection: psycopg.Connection[Any]
    plans: list[Plan] = field(default_factory=list)

    @contextmanager
    def watching(self) -> Iterator[list[Plan]]:
        """Explain what this thread sends in the block; yield the list of plans."""
        watched = threading.current_thread()
        prelude = b""
        self.plans = []

        def explained(run: Run) -> Run:
            def running(
                cursor: EngineCursor, query: bytes, params: Params = None, **options: Any
            ) -> None:
                nonlocal prelude
                if threading.current_thread() is not watched or query.startswith(b"EXPLAIN"):
                    pass
                elif b"'enable_" in query:
                    prelude = query
                else:
                    for mode in MODES:
                        self.plans.append(self.explain(prelude, query, params or {}, mode))
                    prelude = b""
                run(cursor, query, params, **options)

            return running

        with pytest.MonkeyPatch.context() as patch:
            around_statements(patch, explained)
            yield self.plans

    def explain(self, prelude: bytes, query: bytes, params: Any, mode: str) -> Plan:
        """Run *query* after *prelude* in a transaction that is rolled back; return the plan."""
        names: list[str] = []

        def numbered(match: re.Match[bytes]) -> bytes:
            if match[0] == b"%%":
                return b"%"
            name = match[1].decode()
            if name not in names:
                names.append(name)
            return b"$%d" % (names.index(name) + 1)

        text = _PARAMETER.sub(numbered, query)
        values = sql.SQL(", ").join(sql.Literal(_spoken(params[name])) for name in names)
        call = sql.SQL("explained({})").format(values) if names else sql.SQL("explained")
        with self.connection.transaction(force_rollback=True):
            self.connection.execute(sql.SQL("SET LOCAL plan_cache_mode = {}").format(mode))
            if prelude:
                self.connection.pgconn.exec_(prelude)
            self.connection.pgconn.exec_(b"PREPARE explained AS " + text)
            explain = sql.SQL("EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) EXECUTE ") + call
            row = self.connection.execute(explain).fetchone()
        self.connection.execute("DEALLOCATE explained")
        assert row is not None
        top = row[0][0]
        return Plan(
            mode=mode,
            query=text.decode(),
            nodes=list(_nodes(top["Plan"])),
            buffers=top["Plan"]["Shared Hit Blocks"] + top["Plan"]["Shared Read Blocks"],
            milliseconds=top["Execution Time"],
        )


def _nodes(node: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield node
    for child in node.get("Plans", ()):
        yield from _nodes(child)


def _rows_read(node: dict[str, Any]) -> int:
    rows = node["Actual Rows"] + node.get("Rows Removed by Filter", 0)
    return int(rows * node["Actual Loops"])
