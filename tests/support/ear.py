"""An ear of the test's own on the notification channel of a schema."""

from __future__ import annotations

from types import TracebackType

import psycopg
from psycopg import sql

from alkstore._typing import Self
from alkstore_postgres.wakes.channel import wake_channel

_MARK = "the mark that ends a hearing"


class Ear:
    """Hears which mechanisms were told of, without sleeping and hoping.

    Args:
        conninfo: Where the server is.
        schema: The store's schema.
    """

    def __init__(self, conninfo: str, schema: str) -> None:
        self._channel = wake_channel(schema)
        self._connection = psycopg.connect(conninfo, autocommit=True)
        self._connection.execute(sql.SQL("LISTEN {}").format(sql.Identifier(self._channel)))

    def heard(self) -> list[str]:
        """Return what was committed before this call and not returned yet."""
        self._connection.execute("SELECT pg_notify(%s, %s)", [self._channel, _MARK])
        mechanisms: list[str] = []
        for notification in self._connection.notifies(timeout=10):
            if notification.payload == _MARK:
                return mechanisms
            mechanisms.append(notification.payload)
        message = "the mark was not heard"
        raise AssertionError(message)

    def __enter__(self) -> Self:
        """Return itself; it listens already."""
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Close the connection."""
        self._connection.close()
