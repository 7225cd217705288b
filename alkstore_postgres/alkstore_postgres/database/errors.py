"""How the drivers' errors become ours.

What the server says about a failure has a primary message and details. The details quote values:
of a row that a constraint refused, of the statement with its literals. So our message is the
primary one, and the driver's error, which is the cause and is printed with every traceback, is
cut down to it as well. Its `diag` still has everything, for those who want to look.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import psycopg
from psycopg_pool import PoolClosed, PoolTimeout, TooManyRequests

from alkstore.errors import AlkstoreError, DatabaseError, SchemaOutdated, StoreClosed
from alkstore_postgres.database.ending import rest_if_ending

CONFLICTS = frozenset({"40001", "40P01"})
"""Serialization failure and deadlock: the server has undone the whole transaction."""

OUTDATED = frozenset({"26000", "0A000", "42P05"})
"""A prepared statement is gone, or there already; its result would have another type now. Nothing
was run; the second is also what the server says about features that it does not have."""

NOTIFY_QUEUE_FULL = "54000"
"""The server's notification queue is full; it is said at commit."""

_SCHEMA_MISSING = frozenset({"42P01", "42703", "3F000"})
_RETRYABLE_CLASSES = frozenset({"08", "40", "53", "57"})
_RETRYABLE_STATES = frozenset({"25006", "55P03", "55006", "25P03", "25P04"})
_LOST = frozenset({"OperationalError", "InterfaceError"})


def translate(error: Exception) -> AlkstoreError:
    """Return the `AlkstoreError` for an error of psycopg or of its pool.

    The message holds the server's primary message only: details may quote values.
    """
    if isinstance(error, PoolClosed):
        rest_if_ending()
        # A pool is closed for good, and so is a store over it: runners end.
        return StoreClosed(f"the pool of the store is closed: {error}")
    if isinstance(error, (PoolTimeout, TooManyRequests)):
        msg = f"no connection could be had from the pool in time: {error}"
        return DatabaseError(msg, retryable=True)
    if isinstance(error, psycopg.Error):
        return _told(error, error.sqlstate, error.diag.message_primary)
    if isinstance(error, UnicodeEncodeError):
        # The driver writes text in the session's encoding.
        return DatabaseError(f"a character does not exist in {error.encoding}, the client encoding")
    return DatabaseError(f"{type(error).__name__}: {error}")


def translate_foreign(error: BaseException | None) -> AlkstoreError:
    """Return the `AlkstoreError` for an error of psycopg2, SQLAlchemy or Django.

    They are recognised by what they have, not by their classes: none of the three may be
    there. Where one wraps an error of a driver, the driver's error tells.
    """
    if isinstance(error, psycopg.Error):
        return translate(error)
    if error is None:
        return DatabaseError("the driver failed")
    if hasattr(error, "pgcode"):
        diag = getattr(error, "diag", None)
        code = error.pgcode  # pyright: ignore[reportAttributeAccessIssue] - it was looked for
        return _told(error, code, getattr(diag, "message_primary", None))
    if error.__cause__ is not None:
        return translate_foreign(error.__cause__)
    return DatabaseError(_first_line(error))


DRIVER_ERRORS: Final = (psycopg.Error, PoolTimeout, PoolClosed, TooManyRequests, UnicodeEncodeError)
"""What the engine's own statements raise, and `own` translates."""


def own(error: Exception) -> AlkstoreError:
    """Return the `AlkstoreError` for what a statement of the engine's own raised.

    The error is changed, see `hush`.
    """
    hush(error)
    return translate(error)


@contextmanager
def translated() -> Iterator[None]:
    """Translate what the driver raises inside the block, with the error as the cause.

    Only for the engine's own statements, see `own`.
    """
    try:
        yield
    except DRIVER_ERRORS as error:
        raise own(error) from error


def hush(error: BaseException) -> None:
    """Cut the text of a driver's error of ours down to what the server says first.

    Args:
        error: An error of psycopg or psycopg2. One that no server has sent stays as it is.
    """
    primary = getattr(getattr(error, "diag", None), "message_primary", None)
    if primary is not None:
        error.args = (primary,)


def _told(error: BaseException, sqlstate: str | None, primary: str | None) -> AlkstoreError:
    message = primary or _first_line(error)
    if sqlstate in _SCHEMA_MISSING:
        return SchemaOutdated(
            f"the schema does not fit this version of alkstore, migrate it: {message}"
        )
    if sqlstate is None:
        # No server said this: the connection broke, or could not be made.
        retryable = not _LOST.isdisjoint(one.__name__ for one in type(error).__mro__)
    else:
        retryable = sqlstate[:2] in _RETRYABLE_CLASSES or sqlstate in _RETRYABLE_STATES
    return DatabaseError(message, sqlstate=sqlstate, retryable=retryable)


def _first_line(error: BaseException) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0]
