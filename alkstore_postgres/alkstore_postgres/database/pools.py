"""The pool: our own, made anew after a fork, or one that the application lends."""

from __future__ import annotations

import os
import select
import threading
from collections.abc import Mapping
from typing import Any

import psycopg
from psycopg_pool import ConnectionPool, NullConnectionPool

from alkstore.errors import InvalidConnection, StoreClosed
from alkstore_postgres.database.ending import rest_if_ending
from alkstore_postgres.database.own_connection import OwnConnection
from alkstore_postgres.database.own_pool import OwnPool
from alkstore_postgres.database.pool_log import calm

AnyPool = ConnectionPool[Any]

_inherited: list[object] = []
"""Pools that came over a fork. They are kept for ever: closing one, or letting it be
collected, would say goodbye on sockets that belong to the parent."""


class Pools:
    """Hands out the pool of this process.

    Args:
        lent: The application's pool, used as it is and never closed; or ``None``.
        conninfo: Where our own pool connects to.
        arguments: Keyword arguments of our own pool.
    """

    def __init__(self, lent: AnyPool | None, conninfo: str, arguments: Mapping[str, Any]) -> None:
        self.lent = lent
        self.conninfo = conninfo
        self._arguments = dict(arguments)
        self._pool: AnyPool | None = lent
        self._refused: AnyPool | None = None
        self._closed = False
        self._pid = os.getpid()
        self._lock = threading.RLock()

    @property
    def closed(self) -> bool:
        """Whether `close` was called."""
        return self._closed

    def current(self) -> AnyPool:
        """Return the pool of this process, opened.

        Raises:
            StoreClosed: `close` was called.
        """
        if self._pid != os.getpid():
            self.after_fork()
        pool = self._pool
        if pool is not None:
            return pool
        with self._lock:
            if not self._closed:
                if self._pool is None:
                    self._keep(self._make())
                if self._pool is not None:
                    return self._pool
        raise _refusal()

    def check_open(self) -> None:
        """Raise `StoreClosed` when `close` was called."""
        if self._closed:
            raise _refusal()

    def connect(self) -> psycopg.Connection[Any]:
        """Open a connection of our own beside the pool, as the pool would."""
        return psycopg.connect(self.conninfo, **self._arguments.get("kwargs", {}))

    def after_fork(self) -> None:
        """Forget the parent's pool; the child's is made at its first use."""
        _inherited.append((self._pool, self._refused, self._lock))
        self._lock = threading.RLock()
        self._pid = os.getpid()
        self._pool = self._refused = None

    def refuse(self) -> None:
        """Answer from now on that the store is closed."""
        if self._pid != os.getpid():
            self.after_fork()
        with self._lock:
            self._closed = True
            if self._pool is not None:
                self._refused, self._pool = self._pool, None

    def close(self, patience: float = 5.0) -> None:
        """Close our own pool; a lent one stays as it is.

        Args:
            patience: How long to wait for each thread of the pool, in seconds.
        """
        self.refuse()
        pool, self._refused = self._refused, None
        if pool is not None and pool is not self.lent:
            pool.close(patience)

    def _keep(self, pool: AnyPool) -> None:
        if not self._closed:
            self._pool = pool
        else:  # by a signal handler, meanwhile
            pool.close(0.1)

    def _make(self) -> AnyPool:
        lent = self.lent
        if lent is None:
            calm()
            return OwnPool(
                self.conninfo, connection_class=OwnConnection, open=True, **self._arguments
            )
        # The child of a fork cannot use the application's pool: its own one is like it.
        kind = NullConnectionPool if isinstance(lent, NullConnectionPool) else ConnectionPool
        return kind(
            lent.conninfo,
            connection_class=lent.connection_class,
            kwargs=lent.kwargs,
            configure=lent._configure,  # noqa: SLF001 - there is no other way to them
            check=lent._check,  # noqa: SLF001
            reset=lent._reset,  # noqa: SLF001
            min_size=min(lent.min_size, 1),
            max_size=lent.max_size,
            timeout=lent.timeout,
            max_waiting=lent.max_waiting,
            max_idle=lent.max_idle,
            max_lifetime=lent.max_lifetime,
            reconnect_timeout=lent.reconnect_timeout,
            open=True,
        )


def _refusal() -> StoreClosed:
    """Return what a closed store answers, when it is time; not to be called under a lock."""
    rest_if_ending()
    return StoreClosed("the store is closed")


def check_pool(pool: object) -> AnyPool:
    """Return *pool* when it is a psycopg `ConnectionPool` that is open.

    Raises:
        InvalidConnection: It is something else, an asynchronous pool for one, or not open.
    """
    if not isinstance(pool, ConnectionPool):
        msg = f"a psycopg_pool.ConnectionPool is needed, not a {type(pool).__name__}"
        raise InvalidConnection(msg)
    if pool.closed:
        msg = f"the pool {pool.name!a} is not open: call its open() first; closed is for good"
        raise InvalidConnection(msg)
    return pool


def is_dead(connection: psycopg.Connection[Any]) -> bool:
    """Return whether an idle connection is known to be broken, without a round trip.

    An idle server says nothing. When there is something to read, it is a notice, a change
    of a setting, what the encryption says to itself, or the end of the connection: reading
    it tells. A server that is shut down says so before it hangs up, so one reading is not
    enough.
    """
    try:
        if isinstance(connection, OwnConnection) and connection.is_silent():
            return False
        for _ in range(_READINGS):
            if connection.closed or not _readable(connection.fileno()):
                break
            connection.pgconn.consume_input()
    except (OSError, psycopg.Error):
        return True
    return connection.closed


_READINGS = 10


def _readable(socket: int) -> bool:
    """Return whether there is something to read on *socket*, also where there is no poll."""
    if hasattr(select, "poll"):
        poll = select.poll()
        poll.register(socket, select.POLLIN)
        return bool(poll.poll(0))
    try:
        return bool(select.select([socket], [], [], 0)[0])
    except ValueError:  # beyond what select can watch
        return False
