"""Joining connections and cursors of psycopg."""

from __future__ import annotations

from typing import Any

import psycopg
from psycopg.pq import TransactionStatus

from alkstore.errors import DatabaseError, NoTransaction
from alkstore_postgres.database.client_encoding import is_utf8
from alkstore_postgres.database.cursor import EngineCursor, Params
from alkstore_postgres.database.errors import translated
from alkstore_postgres.database.seam.joined import Joined
from alkstore_postgres.database.seam.literals import render
from alkstore_postgres.database.session import Session

AUTOCOMMIT_REFUSED = (
    "the connection is in autocommit mode and no transaction is open on it; open one (psycopg: "
    "connection.transaction(), SQLAlchemy: engine.begin(), Django: transaction.atomic()), or use "
    "store.transaction()"
)
CLOSED = "the connection is closed"


def join_psycopg(tx: Any) -> Joined | None:
    """Return what runs statements on *tx*; ``None`` when it is not of psycopg.

    Raises:
        NoTransaction: It is in autocommit mode outside a transaction.
        DatabaseError: It is closed.
    """
    connection = tx.connection if isinstance(tx, psycopg.Cursor) else tx
    if not isinstance(connection, psycopg.Connection):
        return None
    if connection.closed:
        raise DatabaseError(CLOSED, retryable=True)
    if connection.autocommit and not _in_transaction(connection):
        raise NoTransaction(AUTOCOMMIT_REFUSED)
    return _PsycopgJoined(connection) if is_utf8(connection) else _InAscii(connection)


def _in_transaction(connection: psycopg.Connection[Any]) -> bool:
    """Return whether a transaction is open that the caller has begun."""
    info = connection.info
    if info.transaction_status == TransactionStatus.ACTIVE and info.pipeline_status:
        # What the pipeline holds back has not said yet whether it began one.
        with translated(), connection.pipeline() as pipeline:
            pipeline.sync()
    return info.transaction_status != TransactionStatus.IDLE


class _PsycopgJoined:
    __slots__ = ("_session",)

    def __init__(self, connection: psycopg.Connection[Any]) -> None:
        self._session = Session(connection, prepare=False)

    def execute(self, query: bytes, params: Params = None) -> int:
        """Run a statement; return how many rows it touched."""
        with translated():
            return self._session.execute(query, params)

    def fetch_value(self, query: bytes, params: Params = None) -> Any:
        """Run a statement that returns a row; return the row's first value."""
        with translated():
            return self._session.fetch_value(query, params)


class _InAscii:
    """Statements go out with their values in them, in ASCII, whatever the client encoding.

    Only whole numbers come back.
    """

    __slots__ = ("_connection",)

    def __init__(self, connection: psycopg.Connection[Any]) -> None:
        self._connection = connection

    def execute(self, query: bytes, params: Params = None) -> int:
        """Run a statement; return how many rows it touched."""
        return self._run(query, params).rowcount

    def fetch_value(self, query: bytes, params: Params = None) -> Any:
        """Run a statement that returns a row; return the row's first value."""
        with translated():
            row = self._run(query, params).fetchone()
        return None if row is None else row[0]

    def _run(self, query: bytes, params: Params) -> EngineCursor:
        with translated():
            cursor = EngineCursor(self._connection)
            cursor.execute(render(query, params), prepare=False)
            return cursor
