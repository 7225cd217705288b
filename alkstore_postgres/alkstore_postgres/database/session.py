"""A session: statements on one connection, inside whatever transaction is open there."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
from psycopg import IsolationLevel
from psycopg.pq import TransactionStatus
from psycopg.rows import TupleRow

from alkstore_postgres.database.cursor import EngineCursor, Params, RawCursor
from alkstore_postgres.database.own_connection import OwnConnection


class Session:
    """Runs statements on a connection with the engine's own cursor.

    Args:
        connection: The connection; neither it nor its settings are changed.
        prepare: ``None`` leaves preparing to the connection, ``False`` leaves nothing
            behind on the server.
    """

    __slots__ = ("_cursor", "_prepare")

    def __init__(self, connection: psycopg.Connection[Any], *, prepare: bool | None = None) -> None:
        # A cursor that is kept is for one statement at a time: not for the application's
        # threads, which come through the seam and leave nothing behind.
        self._cursor: EngineCursor = (
            connection.engine_cursor
            if isinstance(connection, OwnConnection) and prepare is None
            else EngineCursor(connection)
        )
        self._prepare = prepare

    @property
    def cursor(self) -> EngineCursor:
        """The cursor that runs the statements."""
        return self._cursor

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

    def fetch_raw(self, query: bytes, params: Params = None) -> list[TupleRow]:
        """Run a statement; return its rows as a `RawCursor` reads them."""
        cursor = RawCursor(self.connection)
        cursor.run(query, params, prepare=self._prepare)
        return cursor.fetchall()

    def fetch_value(self, query: bytes, params: Params = None) -> Any:
        """Run a statement that returns a row; return the row's first value."""
        self._cursor.run(query, params, prepare=self._prepare)
        return self._cursor.fetchvalue()


@contextmanager
def read_committed(connection: psycopg.Connection[Any]) -> Iterator[None]:
    """Run a transaction that is read committed and may write.

    Whatever the connection is set to begin is set again afterwards; nothing is sent for it.
    """
    former = (connection.isolation_level, connection.read_only, connection.deferrable)
    _begin_with(connection, IsolationLevel.READ_COMMITTED, None, None)
    try:
        with connection.transaction():
            yield
    finally:
        if connection.info.transaction_status == TransactionStatus.IDLE:
            _begin_with(connection, *former)


def _begin_with(
    connection: psycopg.Connection[Any],
    isolation_level: IsolationLevel | None,
    read_only: bool | None,  # noqa: FBT001 - the driver's attribute
    deferrable: bool | None,  # noqa: FBT001 - as well
) -> None:
    connection.isolation_level = isolation_level
    connection.read_only = read_only
    connection.deferrable = deferrable
