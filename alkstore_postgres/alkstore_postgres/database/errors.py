"""How the driver's errors become ours."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
from psycopg_pool import PoolClosed, PoolTimeout, TooManyRequests

from alkstore.errors import AlkstoreError, DatabaseError, SchemaOutdated, StoreClosed

CONFLICTS = frozenset({"40001", "40P01"})
"""Serialization failure and deadlock: the server has undone the whole transaction."""

NOTIFY_QUEUE_FULL = "54000"
"""The server's notification queue is full; it is said at commit."""

_SCHEMA_MISSING = frozenset({"42P01", "42703", "3F000"})
_RETRYABLE_CLASSES = frozenset({"08", "40", "53", "57"})
_RETRYABLE_STATES = frozenset({"25006", "55P03", "55006", "25P03", "25P04"})


def translate(error: Exception) -> AlkstoreError:
    """Return the `AlkstoreError` for an error of psycopg or of its pool.

    The message holds the server's primary message only: details may quote values.
    """
    if isinstance(error, PoolClosed):
        return StoreClosed("the connection pool is closed")
    if isinstance(error, (PoolTimeout, TooManyRequests)):
        msg = f"no connection could be had from the pool in time: {error}"
        return DatabaseError(msg, retryable=True)
    if not isinstance(error, psycopg.Error):
        return DatabaseError(f"{type(error).__name__}: {error}")
    sqlstate = error.sqlstate
    if sqlstate in _SCHEMA_MISSING:
        msg = f"the schema does not fit this version of alkstore, migrate it: {_primary(error)}"
        return SchemaOutdated(msg)
    if sqlstate is None:
        # No server said this: the connection broke, or could not be made.
        retryable = isinstance(error, (psycopg.OperationalError, psycopg.InterfaceError))
    else:
        retryable = sqlstate[:2] in _RETRYABLE_CLASSES or sqlstate in _RETRYABLE_STATES
    return DatabaseError(_primary(error), sqlstate=sqlstate, retryable=retryable)


@contextmanager
def translated() -> Iterator[None]:
    """Translate what the driver raises inside the block, with the error as the cause."""
    try:
        yield
    except (psycopg.Error, PoolTimeout, PoolClosed, TooManyRequests) as error:
        raise translate(error) from error


def _primary(error: psycopg.Error) -> str:
    text = error.diag.message_primary or str(error) or type(error).__name__
    return text.strip().splitlines()[0]
