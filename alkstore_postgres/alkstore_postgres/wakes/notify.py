"""Wakes that an application sends itself."""

from __future__ import annotations

from typing import Any

from alkstore.names import check_name
from alkstore_postgres.database.seam import join
from alkstore_postgres.wakes.sender import WakeSender


def notify(sender: WakeSender, channel: str) -> None:
    """Send a wake on *channel* now.

    Raises:
        InvalidName: *channel* breaks the naming rule (`ReservedName` when reserved).
        DatabaseError: The database failed.
    """
    sender.send_now(check_name(channel, "channel"))


def notify_tx(sender: WakeSender, tx: Any, channel: str) -> None:
    """Send a wake on *channel* that is heard when, and only when, *tx* commits.

    Raises:
        InvalidName: *channel* breaks the naming rule (`ReservedName` when reserved).
        NoTransaction: *tx* is in autocommit mode outside a transaction.
        InvalidConnection: *tx* is no connection that can be joined.
        DatabaseError: The database failed.
    """
    name = check_name(channel, "channel")
    sender.send_in(join(tx), name)
