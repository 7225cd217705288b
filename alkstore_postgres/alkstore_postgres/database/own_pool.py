"""The store's own pool: a busy process hands a connection on without the pool's books.

psycopg's pool takes a lock, keeps statistics and looks for waiters at each check-out and each
return. For a stream of short statements that is a tenth of what they cost, so a connection
that comes back lies ready for the next statement, for as long as nobody waits for one.
"""

from __future__ import annotations

import time
from collections import deque
from typing import Any, Final

from psycopg.pq import TransactionStatus
from psycopg_pool import ConnectionPool

from alkstore._typing import override
from alkstore_postgres.database.own_connection import OwnConnection

KEPT_FOR: Final = 1.0
"""How long a connection goes round at most before the pool gets to see it, in seconds."""


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
        self._ready: deque[OwnConnection] = deque()
        self._asking: dict[object, None] = {}
        super().__init__(*args, **kwargs)

    @override
    def getconn(self, timeout: float | None = None) -> OwnConnection:
        """Take what lies ready, or have the pool hand one out; see `ConnectionPool.getconn`."""
        try:
            return self._ready.pop()
        except IndexError:
            pass
        ticket = object()
        self._asking[ticket] = None
        try:
            self._return_ready()
            connection = super().getconn(timeout)
        finally:
            del self._asking[ticket]
        connection.handed_out_at = time.monotonic()
        return connection

    @override
    def putconn(self, conn: OwnConnection) -> None:
        """Lay a connection ready, or give it back to the pool."""
        if (
            self._asking
            or len(self._ready) >= self.min_size
            or time.monotonic() - conn.handed_out_at > KEPT_FOR
            or conn.pgconn.transaction_status != TransactionStatus.IDLE
        ):
            super().putconn(conn)
            return
        self._ready.append(conn)
        if self._asking or self.closed:
            self._return_ready()

    @override
    def close(self, timeout: float = 5.0) -> None:
        """Close the pool and what lies ready; see `ConnectionPool.close`."""
        try:
            super().close(timeout)
        finally:
            self._return_ready()

    def _return_ready(self) -> None:
        while True:
            try:
                connection = self._ready.pop()
            except IndexError:
                return
            super().putconn(connection)
