"""Wakes that an application sends itself."""

from __future__ import annotations

from typing import Any

from alkstore.names import check_name
from alkstore_postgres.database.database import Database
from alkstore_postgres.database.seam import join
from alkstore_postgres.database.statements import Statements
from alkstore_postgres.wakes.channel import wake_channel


def notify(database: Database, channel: str) -> None:
    """Send a wake on *channel* now.

    Raises:
        InvalidName: *channel* breaks the naming rule (`ReservedName` when reserved).
        DatabaseError: The database failed.
    """
    name = check_name(channel, "channel")
    database.execute(statement(database.schema), _params(database.schema, name))


def notify_tx(schema: str, tx: Any, channel: str) -> None:
    """Send a wake on *channel* that is heard when, and only when, *tx* commits.

    Raises:
        InvalidName: *channel* breaks the naming rule (`ReservedName` when reserved).
        NoTransaction: *tx* is in autocommit mode outside a transaction.
        TypeError: *tx* is no connection that can be joined.
    """
    name = check_name(channel, "channel")
    join(tx).execute(statement(schema), _params(schema, name))


def statement(schema: str, name: str = "notify") -> bytes:
    """Return a statement of ``wakes.sql``."""
    return Statements("alkstore_postgres.wakes", "wakes.sql", schema)[name]


def _params(schema: str, name: str) -> dict[str, str]:
    return {"channel": wake_channel(schema), "name": name}
