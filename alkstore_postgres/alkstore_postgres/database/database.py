"""Check-out, statements and transactions, with our errors."""

from __future__ import annotations

import random
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from functools import partial
from operator import attrgetter, methodcaller
from typing import Any, ParamSpec, TypeVar

import psycopg
from psycopg import IsolationLevel
from psycopg.pq import TransactionStatus
from psycopg.rows import TupleRow
from psycopg_pool import PoolTimeout

from alkstore.errors import DatabaseError
from alkstore_postgres.database.client_encoding import require_utf8
from alkstore_postgres.database.cursor import EngineCursor, Params
from alkstore_postgres.database.errand import Errand
from alkstore_postgres.database.errors import CONFLICTS, DRIVER_ERRORS, OUTDATED, own, translated
from alkstore_postgres.database.own_connection import OwnConnection
from alkstore_postgres.database.own_pool import OwnPool
from alkstore_postgres.database.pools import AnyPool, Pools, is_dead
from alkstore_postgres.database.session import Session, read_committed

T = TypeVar("T")
P = ParamSpec("P")

Attend = Callable[[psycopg.Connection[Any]], AbstractContextManager[None]]
"""Attends to a connection for a block, for as long as that is out on loan."""

_IN_FAILED_TRANSACTION = "25P02"

_TRIES = 10
"""How often a conflict with another transaction is tried again before it is told."""

_PATIENCE = 1.25
"""So many times as long as an application's pool was asked to a connection is waited for."""


class Database:
    """Runs the engine's statements over a pool.

    A connection on loan is in autocommit mode, whatever the pool's default, and goes back
    as it was.

    Args:
        pools: Where the pool of this process comes from.
        schema: The schema's name, unquoted.
        timeout: How long a check-out may take, in seconds.
    """

    def __init__(self, pools: Pools, schema: str, timeout: float) -> None:
        self._pools = pools
        self.schema = schema
        self._timeout = timeout
        self._attend: Attend | None = None

    def attended(self, attend: Attend, timeout: float) -> Database:
        """Return the same way to the database, with somebody who attends to each loan.

        Args:
            attend: Entered with each connection that was checked out, before anything is sent,
                and left before that is given back: whom it belongs to then is no affair of his.
            timeout: How long a check-out may take besides what this one allows, in seconds; a
                quarter more where a pool does not keep to it.
        """
        other = Database(self._pools, self.schema, min(self._timeout, timeout))
        other._attend = attend
        return other

    @property
    def closed(self) -> bool:
        """Whether the store was closed."""
        return self._pools.closed

    def check_open(self) -> None:
        """Raise `StoreClosed` when the store was closed: for calls that have nothing to do."""
        self._pools.check_open()

    @contextmanager
    def connection(self, *, waited: float = 0.0) -> Iterator[psycopg.Connection[Any]]:
        """Lend a living connection in autocommit mode.

        Args:
            waited: How long the caller has waited for one already, in seconds.

        Raises:
            StoreClosed: The store was closed.
            InvalidConnection: Its client encoding is not UTF-8.
            DatabaseError: None could be had in time, or the block's statement failed.
        """
        with translated():
            pool = self._pools.current()
            connection = self._check_out(pool, waited)
            try:
                with nullcontext() if self._attend is None else self._attend(connection):
                    if isinstance(connection, OwnConnection):
                        yield connection
                        return
                    require_utf8(connection)
                    former = (connection.autocommit, connection.isolation_level)
                    try:
                        connection.autocommit = True
                        yield connection
                    finally:
                        _restore(connection, *former)
            finally:
                pool.putconn(connection)

    @contextmanager
    def transaction(self, *, prepare: bool | None = None) -> Iterator[Session]:
        """Lend a session inside a read-committed transaction.

        Leaving the block commits; an exception rolls back.

        Args:
            prepare: As for `Session`.

        Raises:
            DatabaseError: A statement, or the commit, failed.
        """
        with self.connection() as connection, read_committed(connection):
            yield Session(connection, prepare=prepare)

    @contextmanager
    def lend(self) -> Iterator[psycopg.Connection[Any]]:
        """Lend a connection inside a transaction to the application.

        As `transaction`, but what the application's own statements raise inside the block
        stays as it is. A connection of our own is afterwards as it was, see
        `OwnConnection.lent`; one of the application's pool is the application's affair.
        """
        theirs: Exception | None = None
        try:
            with self.connection() as connection, _loan(connection), read_committed(connection):
                try:
                    yield connection
                except Exception as error:
                    theirs = error
                    raise _OwnError from error  # is translated by nobody
                _require_open(connection)
        except _OwnError:
            pass
        if theirs is not None:
            raise theirs

    def run(self, work: Callable[[Session], T]) -> T:
        """Run *work* in a transaction, again when it met a conflict.

        Conflicts (deadlock, serialization failure) undo the whole transaction, so that
        *work* may be called several times; what it returns last counts. It is called once
        more, with nothing prepared, when a prepared statement was gone or outdated.
        """
        try:
            return _again_on_conflict(self._attempt, work, None)
        except DatabaseError as error:
            if error.sqlstate not in OUTDATED:
                raise
        return _again_on_conflict(self._attempt, work, False)  # noqa: FBT003 - handed through

    def _attempt(self, work: Callable[[Session], T], prepare: bool | None) -> T:  # noqa: FBT001 - as well
        with self.transaction(prepare=prepare) as session:
            return work(session)

    def execute(self, query: bytes, params: Params = None) -> int:
        """Run one statement in a transaction of its own; return its row count."""
        return self._single(_COUNT, query, params)

    def fetch_one(self, query: bytes, params: Params = None) -> TupleRow | None:
        """Run one statement in a transaction of its own; return its first row."""
        return self._single(_FIRST, query, params)

    def fetch_all(self, query: bytes, params: Params = None) -> list[TupleRow]:
        """Run one statement in a transaction of its own; return its rows."""
        return self._single(_ALL, query, params)

    def fetch_value(self, query: bytes, params: Params = None) -> Any:
        """Run one statement that returns a row; return the row's first value."""
        return self._single(_VALUE, query, params)

    def _single(self, take: Callable[[EngineCursor], T], query: bytes, params: Params) -> T:
        """Run one statement, again when it met a conflict; return what *take* makes of it."""
        tries = 1
        while True:
            try:
                return self._once(take, query, params)
            except DatabaseError as error:
                if not _rests(error, tries):
                    raise
            tries += 1

    def _once(self, take: Callable[[EngineCursor], T], query: bytes, params: Params) -> T:
        if self._attend is None and self._pools.lent is None:
            # What most calls come down to. It runs cold after each wait for the server, where a
            # call of Python's costs several times what it does in a loop: as few as can be.
            began = time.monotonic()
            try:
                pool = self._pools.current()
                connection = pool.getconn(self._timeout)
                try:
                    # Whoever has put something in the place of `psycopg.Connection.connect`, to
                    # count or to trace, may hand out others.
                    if isinstance(connection, OwnConnection):
                        if connection.is_silent() or not is_dead(connection):
                            own_cursor = connection.kept_cursor or connection.engine_cursor
                            own_cursor.run(query, params)
                            return take(own_cursor)
                        connection.close()
                finally:
                    pool.putconn(connection)
            except DRIVER_ERRORS as error:
                raise own(error) from error
            waited = time.monotonic() - began
        else:
            waited = 0.0
        with self.connection(waited=waited) as lent:
            cursor = Session(lent).cursor
            cursor.run(query, params)
            return take(cursor)

    def _check_out(self, pool: AnyPool, waited: float) -> psycopg.Connection[Any]:
        """Return a living connection of *pool*; whatever fails or interrupts, none is lost.

        Nothing may come between a check-out and the ``try`` that gives back: Ctrl-C is heard
        between any two statements, and the pool does not miss what it has handed out.
        """
        deadline = time.monotonic() + self._timeout - waited
        while True:
            left = deadline - time.monotonic()
            if left <= 0:
                msg = f"no living connection after {self._timeout:g} s"
                raise PoolTimeout(msg)
            connection = self._fetch(pool, left)
            try:
                if not is_dead(connection):
                    return connection
                connection.close()
            except BaseException:
                pool.putconn(connection)
                raise
            pool.putconn(connection)

    def _fetch(self, pool: AnyPool, timeout: float) -> psycopg.Connection[Any]:
        """Have *pool* hand out a connection.

        The pool of an application may check it, or make it, in the caller's thread and without a
        limit, and nobody attends to what was not handed out yet. Whoever must not wait for ever
        sends another thread for it.
        """
        if self._attend is not None and not isinstance(pool, OwnPool):
            errand: Errand[psycopg.Connection[Any]] = Errand(
                partial(pool.getconn, timeout), partial(_put_back, pool)
            )
            if errand.start():
                return errand.wait(timeout * _PATIENCE)
        connection: psycopg.Connection[Any] = pool.getconn(timeout=timeout)
        return connection


def _put_back(pool: AnyPool, hands: deque[psycopg.Connection[Any]]) -> None:
    """Give back what *hands* holds, which others may give back as well: only one can."""
    with suppress(IndexError):
        pool.putconn(hands.pop())


def _require_open(connection: psycopg.Connection[Any]) -> None:
    """Raise `DatabaseError` when the transaction cannot be committed any more.

    The application has handled the error that was the end of it, and would take what it did
    in the block for stored.
    """
    status = connection.info.transaction_status
    if status == TransactionStatus.INERROR:
        msg = "a statement in the block failed, and nothing of the block was committed"
        raise DatabaseError(msg, sqlstate=_IN_FAILED_TRANSACTION)
    if status == TransactionStatus.UNKNOWN:
        msg = "the connection was lost in the block, and nothing of the block was committed"
        raise DatabaseError(msg, retryable=True)


class _OwnError(Exception):
    """Carries what the application raised past the translation, and rolls back."""


def _loan(connection: psycopg.Connection[Any]) -> AbstractContextManager[None]:
    return connection.lent() if isinstance(connection, OwnConnection) else nullcontext()


def _restore(
    connection: psycopg.Connection[Any],
    autocommit: bool,  # noqa: FBT001 - the driver's attribute, handed back
    isolation_level: IsolationLevel | None,
) -> None:
    if connection.closed or (autocommit and isolation_level == connection.isolation_level):
        return
    if connection.info.transaction_status == TransactionStatus.IDLE:
        connection.isolation_level = isolation_level
        connection.autocommit = autocommit
    else:  # left in the middle of something: the pool makes another one
        connection.close()


# What is made of a cursor that has run a statement.
_COUNT: Callable[[EngineCursor], int] = attrgetter("rowcount")
_FIRST: Callable[[EngineCursor], TupleRow | None] = methodcaller("fetchone")
_ALL: Callable[[EngineCursor], list[TupleRow]] = methodcaller("fetchall")
_VALUE: Callable[[EngineCursor], Any] = methodcaller("fetchvalue")


def _again_on_conflict(attempt: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    tries = 1
    while True:
        try:
            return attempt(*args, **kwargs)
        except DatabaseError as error:
            if not _rests(error, tries):
                raise
        tries += 1


def _rests(error: DatabaseError, tries: int) -> bool:
    """Rest if *error* is a conflict that may be over afterwards; return whether it is one.

    It is not raised here: its traceback would hold this call, which holds it, and with it
    whatever its callers were at work on, until the garbage is collected.
    """
    if error.sqlstate not in CONFLICTS or tries >= _TRIES:
        return False
    # Both sides of a conflict would otherwise meet again in step.
    time.sleep(random.uniform(0, 0.002 * 2**tries))  # noqa: S311 - no secret
    return True
