"""The store's own pool: a busy process hands a connection on without the pool's books.

psycopg's pool takes a lock, keeps statistics and looks for waiters at each check-out and each
return. For a stream of short statements that is a tenth of what they cost, so a connection
that comes back lies ready for the next statement, for as long as nobody waits for one.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from contextlib import suppress
from functools import partial
from typing import Any, Final

from psycopg.pq import TransactionStatus
from psycopg_pool import ConnectionPool, PoolClosed

from alkstore._typing import override
from alkstore_postgres.database.errand import Errand
from alkstore_postgres.database.own_connection import OwnConnection

KEPT_FOR: Final = 1.0
"""How long a connection goes round at most before the pool gets to see it, in seconds."""

_LAST_ASKERS = 1.0
"""So long at most, in seconds, the end of the pool waits for those who are on their way into it."""

_LONGER = 1.0
"""So many seconds later than the pool itself a wait in it is given up."""


class OwnPool(ConnectionPool[OwnConnection]):
    """A pool that hands out again what came back last.

    Whoever finds nothing ready first announces that, then gives back what lies ready in the
    meantime, then asks the pool; whoever lays a connection ready looks for such an
    announcement afterwards. So nobody waits in the pool for a connection that lies ready. Not
    more than ``min_size`` of them do, which the pool would keep open as well; what it
    does with returned connections (their age, their number) is late by `KEPT_FOR`, or by
    the time until the next statement.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        # Each in the hands of whoever laid it there: what is taken out of them is nobody else's.
        self._ready: deque[deque[OwnConnection]] = deque()
        self._asking: dict[object, None] = {}
        super().__init__(*args, **kwargs)

    @override
    def __del__(self) -> None:
        """Stop the pool's threads; see `ConnectionPool`.

        The last one that knows of a dropped pool may be one of these: it cannot wait for itself,
        which would be told on stderr.
        """
        with suppress(RuntimeError):
            super().__del__()

    @override
    def getconn(self, timeout: float | None = None) -> OwnConnection:
        """Take what lies ready, or have the pool hand one out; see `ConnectionPool.getconn`."""
        while self._ready:
            try:
                connection = self._ready.pop().pop()
            except IndexError:  # somebody else was quicker
                continue
            connection._pool = self  # noqa: SLF001 - as the pool does it
            return connection
        ticket = object()
        self._asking[ticket] = None
        try:
            self._return_ready()
            connection = self._fetch(self.timeout if timeout is None else timeout)
        finally:
            del self._asking[ticket]
        connection.handed_out_at = time.monotonic()
        return connection

    @override
    def putconn(self, conn: OwnConnection) -> None:
        """Lay a connection ready, or give it back to the pool."""
        hands: deque[OwnConnection] = deque((conn,))
        try:
            if (
                self._asking
                or len(self._ready) >= self._min_size
                or time.monotonic() - conn.handed_out_at > KEPT_FOR
                or conn.pgconn.transaction_status != TransactionStatus.IDLE
            ):
                self._give_back(hands)
                return
            conn._pool = None  # noqa: SLF001 - without it a dropped pool would be a cycle
            self._ready.append(hands)
            if self._asking or self._closed:
                self._return_ready()
        except BaseException:  # Ctrl-C
            conn._pool = self  # noqa: SLF001
            self._return(hands)  # unless it is in somebody else's already
            raise

    def _give_back(self, hands: deque[OwnConnection]) -> None:
        """Give back what *hands* holds, which others may give back as well: only one can.

        What is handed to somebody who waits must not be interrupted on its way. Signals are
        heard in the main thread alone, so that another one does it.
        """
        if self._asking and _hears_signals():
            thread = threading.Thread(
                target=self._return, args=(hands,), name="alkstore-return", daemon=True
            )
            with suppress(RuntimeError):  # no more threads, or the interpreter is ending
                thread.start()
                return
        self._return(hands)

    def _return(self, hands: deque[OwnConnection]) -> None:
        with suppress(IndexError):
            super().putconn(hands.pop())

    def _fetch(self, timeout: float) -> OwnConnection:
        """Have the pool hand out a connection; Ctrl-C in the wait loses none.

        Whoever is interrupted while it waits in the pool is still handed a connection, which
        nobody gives back. So the main thread has another one wait for it.
        """
        if not _hears_signals() or self.get_stats()["pool_available"]:
            return super().getconn(timeout)
        errand = Errand(partial(super().getconn, timeout), self._return)
        if not errand.start():
            return super().getconn(timeout)
        return errand.wait(timeout + _LONGER)

    @override
    def close(self, timeout: float = 5.0) -> None:
        """Close the pool and what lies ready; see `ConnectionPool.close`."""
        try:
            super().close(timeout)
        finally:
            self._return_ready()
            self._turn_away(min(timeout, _LAST_ASKERS))

    def _turn_away(self, limit: float) -> None:
        """Fail those who came just before the pool was closed, for up to *limit* seconds.

        The pool looks whether it is open before it takes its lock: who looked in time may begin
        to wait when all others have been told.
        """
        deadline = time.monotonic() + limit
        while self._asking:
            with self._lock:
                waiting = list(self._waiting)
                self._waiting.clear()
            for one in waiting:
                one.fail(PoolClosed(f"the pool {self.name!r} is closed"))
            if time.monotonic() >= deadline:
                return
            time.sleep(0.001)

    def _return_ready(self) -> None:
        while self._ready:
            try:
                connection = self._ready.pop().pop()
            except IndexError:  # somebody else was quicker
                continue
            connection._pool = self  # noqa: SLF001
            super().putconn(connection)


def _hears_signals() -> bool:
    return threading.current_thread() is threading.main_thread()
