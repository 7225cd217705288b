"""A session: statements on one connection, inside whatever transaction is open there."""

from __future__ import annotations

from typing import Any

import psycopg
from psycopg.rows import TupleRow

from alkstore_postgres.database.cursor import EngineCursor, Params


class Session:
    """Runs statements on a connection with the engine's own cursor.

    Args:
        connection: The connection; neither it nor its settings are changed.
        prepare: ``None`` leaves preparing to the connection, ``False`` leaves nothing
            behind on the server.
    """

    __slots__ = ("_cursor", "_prepare")

    def __init__(self, connection: psycopg.Connection[Any], *, prepare: bool | None = None) -> None:
        self._cursor = EngineCursor(connection)
        self._prepare = prepare

    @property
    def connection(self) -> psycopg.Connection[Any]:
        """The connection underneath."""
        return self._cursor.connection

    def execute(self, query: bytes, params: Params = None) -> int:
        """Run a statement; return how many rows it touched."""
        self._cursor.run(query, params, prepare=self._prepare)
        return self._cursor.rowcount

    def fetch_one(self, query: bytes, params: Params = None) -> TupleRow | None:
        """Run a statement; return its first row."""
        self._cursor.run(query, params, prepare=self._prepare)
        return self._cursor.fetchone()

    def fetch_all(self, query: bytes, params: Params = None) -> list[TupleRow]:
        """Run a statement; return its rows."""
        self._cursor.run(query, params, prepare=self._prepare)
        return self._cursor.fetchall()

    def fetch_value(self, query: bytes, params: Params = None) -> Any:
        """Run a statement that returns a row; return the row's first value."""
        row = self.fetch_one(query, params)
        if row is None:
            msg = "the statement returned no row"
            raise LookupError(msg)
        return row[0]
