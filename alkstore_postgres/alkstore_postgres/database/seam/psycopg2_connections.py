"""Joining connections and cursors of psycopg2, which is never imported here.

An object of psycopg2 can only come from an application that has imported it.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from alkstore.errors import DatabaseError, InvalidConnection, NoTransaction
from alkstore_postgres.database.cursor import Params
from alkstore_postgres.database.errors import hush, translate_foreign
from alkstore_postgres.database.seam.joined import Joined
from alkstore_postgres.database.seam.literals import render
from alkstore_postgres.database.seam.psycopg_connections import AUTOCOMMIT_REFUSED, CLOSED

_OIDS: Final = (20, 2278)
"""The types that come back: bigint, and the nothing of a sent wake."""


def join_psycopg2(tx: Any) -> Joined | None:
    """Return what runs statements on *tx*; ``None`` when it is not of psycopg2.

    Raises:
        NoTransaction: It is in autocommit mode outside a transaction.
        InvalidConnection: It is asynchronous.
        DatabaseError: It is closed.
    """
    extensions: Any = sys.modules.get("psycopg2.extensions")
    if extensions is None:
        return None
    connection = tx.connection if isinstance(tx, extensions.cursor) else tx
    if not isinstance(connection, extensions.connection):
        return None
    if connection.async_:
        msg = "tx is an asynchronous psycopg2 connection; only synchronous ones can be joined"
        raise InvalidConnection(msg)
    if connection.closed:
        raise DatabaseError(CLOSED, retryable=True)
    idle = connection.get_transaction_status() == extensions.TRANSACTION_STATUS_IDLE
    if connection.autocommit and idle:
        raise NoTransaction(AUTOCOMMIT_REFUSED)
    return _Psycopg2Joined(connection, extensions)


class _Psycopg2Joined:
    """Statements go out with their values in them, and only whole numbers come back.

    So neither the application's adapters and type casters nor the session's settings have
    a say, and the cursor is of the plain class, whatever the connection's is.
    """

    __slots__ = ("_connection", "_extensions")

    def __init__(self, connection: Any, extensions: Any) -> None:
        self._connection = connection
        self._extensions = extensions

    def execute(self, query: bytes, params: Params = None) -> int:
        """Run a statement; return how many rows it touched."""
        with self._ran(query, params) as cursor:
            count: int = cursor.rowcount
            return count

    def fetch_value(self, query: bytes, params: Params = None) -> Any:
        """Run a statement that returns a row; return the row's first value."""
        with self._ran(query, params) as cursor:
            return cursor.fetchone()[0]

    @contextmanager
    def _ran(self, query: bytes, params: Params) -> Iterator[Any]:
        try:
            with self._connection.cursor(cursor_factory=self._extensions.cursor) as cursor:
                self._extensions.register_type(self._whole_numbers(), cursor)
                cursor.execute(render(query, params))
                yield cursor
        except sys.modules["psycopg2"].Error as error:
            hush(error)
            raise translate_foreign(error) from error

    def _whole_numbers(self) -> Any:
        def cast(value: str | None, _cursor: object) -> int | None:
            return int(value) if value else None

        return self._extensions.new_type(_OIDS, "ALKSTORE", cast)
