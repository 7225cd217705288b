"""The entry of the seam: what may be joined, and how it is recognised."""

from __future__ import annotations

from typing import Any

from alkstore.errors import InvalidConnection
from alkstore_postgres.database.seam.django_connections import join_django
from alkstore_postgres.database.seam.joined import Joined
from alkstore_postgres.database.seam.psycopg2_connections import join_psycopg2
from alkstore_postgres.database.seam.psycopg_connections import join_psycopg
from alkstore_postgres.database.seam.sqlalchemy_connections import join_sqlalchemy

_ASYNCHRONOUS_MODULES = frozenset({"aiopg", "asyncpg"})


def join(tx: Any) -> Joined:
    """Return what runs statements inside the caller's transaction.

    Nothing is opened, committed or closed, and no session state changes: nothing is
    prepared on the server, and the caller's cursors, row factories and adapters are neither
    used nor changed. SQLAlchemy and Django are recognised without importing them.

    Args:
        tx: A psycopg or psycopg2 connection or cursor, a SQLAlchemy ``Connection``,
            ``Session`` or ``scoped_session`` over one of the two, or a connection of
            Django.

    Raises:
        NoTransaction: The connection is in autocommit mode outside a transaction: what
            is written would be committed at once, whatever becomes of the caller's rows.
        InvalidConnection: *tx* is nothing that can be joined.
        DatabaseError: The connection is closed, or not usable any more.
    """
    for framework in (join_sqlalchemy, join_django):
        joined = framework(tx, _join_driver)
        if joined is not None:
            return joined
    return _join_driver(tx)


def _join_driver(tx: Any) -> Joined:
    joined = join_psycopg(tx) or join_psycopg2(tx)
    if joined is None:
        raise InvalidConnection(_refusal(tx))
    return joined


def _refusal(tx: object) -> str:
    given = tx if isinstance(tx, type) else type(tx)
    module = given.__module__
    where = f"{module}.{given.__qualname__}"
    if module.partition(".")[0] in _ASYNCHRONOUS_MODULES or "Async" in given.__name__:
        return f"tx is asynchronous ({where}); only synchronous connections can be joined"
    if isinstance(tx, type):
        where = f"the class {where} itself"
    return (
        "tx must be a psycopg or psycopg2 connection or cursor, a SQLAlchemy Connection or "
        f"Session over one of them, or a Django connection to PostgreSQL, not {where}"
    )
