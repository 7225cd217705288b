"""Joining connections of Django, which is never imported here.

An object of Django can only come from an application that has imported it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from alkstore._typing import override
from alkstore.errors import DatabaseError, InvalidConnection, NoTransaction
from alkstore_postgres.database.seam.joined import Joined, Noticing
from alkstore_postgres.database.seam.psycopg_connections import AUTOCOMMIT_REFUSED


def join_django(tx: Any, join_driver: Callable[[Any], Joined]) -> Joined | None:
    """Return what runs statements on *tx*; ``None`` when it is not of Django.

    Args:
        tx: ``django.db.connection`` or ``django.db.connections[alias]``.
        join_driver: Joins the connection of the driver below.

    Raises:
        NoTransaction: It is outside of ``transaction.atomic``, in autocommit mode.
        InvalidConnection: It is a connection to another kind of database.
        DatabaseError: It is closed, or its ``atomic`` block is marked for rollback.
    """
    if not _is_connection(tx):
        return None
    vendor = getattr(tx, "vendor", "no database")
    if vendor != "postgresql":
        msg = f"a Django connection to PostgreSQL is needed, not to {vendor}"
        raise InvalidConnection(msg)
    if tx.needs_rollback:
        msg = "the atomic block is marked for rollback"
        raise DatabaseError(msg)
    if tx.connection is None:
        if tx.settings_dict["AUTOCOMMIT"]:
            raise NoTransaction(AUTOCOMMIT_REFUSED)
        tx.ensure_connection()  # as Django does before a first statement
    return _DjangoJoined(tx, join_driver(tx.connection))


def _is_connection(tx: Any) -> bool:
    # The proxy is there before the first database is, and its back end is imported.
    kinds = {
        "django.utils.connection": "ConnectionProxy",
        "django.db.backends.base.base": "BaseDatabaseWrapper",
    }
    return any(
        module in sys.modules and isinstance(tx, getattr(sys.modules[module], name))
        for module, name in kinds.items()
    )


class _DjangoJoined(Noticing):
    """Has Django look at the connection after a failure, as it does after its own."""

    __slots__ = ("_wrapper",)

    def __init__(self, wrapper: Any, inner: Joined) -> None:
        self._wrapper = wrapper
        super().__init__(inner)

    @override
    @contextmanager
    def _noticed(self) -> Iterator[None]:
        try:
            yield
        except DatabaseError:
            self._wrapper.errors_occurred = True
            raise
