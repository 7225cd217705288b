"""Joining connections and sessions of SQLAlchemy, which is never imported here.

An object of SQLAlchemy can only come from an application that has imported it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from alkstore._typing import override
from alkstore.errors import DatabaseError, InvalidConnection, NoTransaction
from alkstore_postgres.database.errors import translate_foreign
from alkstore_postgres.database.seam.joined import Joined, Noticing


def join_sqlalchemy(tx: Any, join_driver: Callable[[Any], Joined]) -> Joined | None:
    """Return what runs statements on *tx*; ``None`` when it is not of SQLAlchemy.

    Where SQLAlchemy would begin a transaction with the first statement, it is told of ours
    the same way: a ``commit()`` or ``rollback()`` of the application then knows of it.

    Args:
        tx: A ``Connection``, a ``Session`` or a ``scoped_session``.
        join_driver: Joins the connection of the driver below.

    Raises:
        NoTransaction: It is in autocommit mode, or no transaction may begin there.
        InvalidConnection: Its driver cannot be joined, or a session has more than one database.
        DatabaseError: It is closed, or waits for a rollback.
    """
    orm: Any = sys.modules.get("sqlalchemy.orm")
    engine: Any = sys.modules.get("sqlalchemy.engine")
    if orm is not None and isinstance(tx, orm.scoped_session):
        tx = tx()
    is_session = orm is not None and isinstance(tx, orm.Session)
    if not is_session and (engine is None or not isinstance(tx, engine.Connection)):
        return None
    with _told_our_way():
        connection = tx.connection() if is_session else tx
        driver_connection = connection.connection.driver_connection
        joined = join_driver(driver_connection)
        if not connection.in_transaction():
            connection.begin()
    return _SqlalchemyJoined(connection, driver_connection, joined)


class _SqlalchemyJoined(Noticing):
    """Tells SQLAlchemy of a connection that was lost, as it finds out about its own."""

    __slots__ = ("_connection", "_driver_connection")

    def __init__(self, connection: Any, driver_connection: Any, inner: Joined) -> None:
        self._connection = connection
        self._driver_connection = driver_connection
        super().__init__(inner)

    @override
    @contextmanager
    def _noticed(self) -> Iterator[None]:
        try:
            yield
        except DatabaseError as error:
            if self._driver_connection.closed:
                self._connection.invalidate(error.__cause__)
            raise


@contextmanager
def _told_our_way() -> Iterator[None]:
    exc: Any = sys.modules["sqlalchemy.exc"]
    try:
        yield
    except exc.UnboundExecutionError as error:
        msg = (
            "the session has no single database; pass the right connection of it: "
            "session.connection(bind_arguments=...)"
        )
        raise InvalidConnection(msg) from error
    except exc.DBAPIError as error:
        raise translate_foreign(error.orig) from error
    except (exc.ResourceClosedError, exc.PendingRollbackError) as error:
        raise translate_foreign(error) from error
    except exc.InvalidRequestError as error:
        msg = f"no transaction can begin there: {error}"
        raise NoTransaction(msg) from error
    except exc.SQLAlchemyError as error:
        raise translate_foreign(error) from error
