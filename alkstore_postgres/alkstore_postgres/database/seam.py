"""The caller's own connection: what may join it, and how."""

from __future__ import annotations

from typing import Any

import psycopg
from psycopg.pq import TransactionStatus

from alkstore.errors import NoTransaction
from alkstore_postgres.database.session import Session


def join(tx: Any) -> Session:
    """Return a session inside the caller's transaction.

    Nothing is opened, committed or closed, and no session state changes: nothing is
    prepared on the server, and the caller's cursor and row factory stay as they are.

    Args:
        tx: A psycopg `Connection`, or a cursor of one.

    Raises:
        NoTransaction: The connection is in autocommit mode outside a transaction: what
            is written would be committed at once, whatever becomes of the caller's rows.
        TypeError: *tx* is nothing that can be joined.
    """
    connection = tx.connection if isinstance(tx, psycopg.Cursor) else tx
    if not isinstance(connection, psycopg.Connection):
        msg = (
            "tx must be a psycopg Connection or a cursor of one, "
            f"not {type(tx).__module__}.{type(tx).__qualname__}"
        )
        raise TypeError(msg)
    if connection.autocommit and connection.info.transaction_status == TransactionStatus.IDLE:
        msg = (
            "the connection is in autocommit mode and no transaction is open on it; open one "
            "with connection.transaction(), or use store.transaction()"
        )
        raise NoTransaction(msg)
    return Session(connection, prepare=False)
