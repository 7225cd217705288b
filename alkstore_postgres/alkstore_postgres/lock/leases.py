"""Leases: rows that belong to an owner until a time on the store clock.

The statements never wait for a row that another transaction holds on to, so that a frozen
process cannot freeze those who want its lease. Names are not checked here: the scheduler's
lease is a reserved one. `alkstore_postgres.lock.locks` is the public entry.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any, Final

from psycopg.rows import TupleRow

from alkstore.errors import DatabaseError
from alkstore_postgres.database.database import Database
from alkstore_postgres.database.errors import NOTIFY_QUEUE_FULL
from alkstore_postgres.database.session import Session
from alkstore_postgres.database.statements import Statements

BUSY_RETRY: Final = 0.25
"""What `Leases.acquire` answers, in seconds, when a row is free but somebody holds on to it."""

_LOCK_NOT_AVAILABLE = "55P03"
_FIRST_ROW_TRIES = 5
_BUSY_PAUSES = (0.002, 0.01, 0.05, 0.2)


@dataclass(frozen=True, slots=True)
class Lease:
    """One acquisition of a lock.

    Attributes:
        name: The lock's name.
        owner: Who took it.
        token: The fencing token, larger than that of any earlier acquisition.
    """

    name: str
    owner: str
    token: int


class Leases:
    """Takes, renews, proves and releases leases, each in one round trip.

    Args:
        database: The way to the database.
        channel: The notification channel of the schema.
    """

    def __init__(self, database: Database, channel: str) -> None:
        self._database = database
        self._channel = channel
        self._sql = Statements("alkstore_postgres.lock", "leases.sql", database.schema)

    def check_open(self) -> None:
        """Raise `StoreClosed` when the store was closed: a stop may keep a wait from asking it."""
        self._database.check_open()

    def acquire(self, name: str, owner: str, ttl: float) -> Lease | float:
        """Take the lease if it is free.

        It is free when it was never taken, was released, or has lapsed on the store clock;
        also when its end is missing or infinite, which only a hand can have written.

        Args:
            name: The lock's name.
            owner: Who takes it.
            ttl: How long it holds without a renewal, in seconds.

        Returns:
            The lease; or for how many more seconds, unless it is renewed, another one
            holds (`BUSY_RETRY` when a transaction keeps a lapsed one from being taken).

        Raises:
            DatabaseError: The database failed; nothing is known then.
        """
        params = {"name": name, "owner": owner, "ttl": ttl}
        for _ in range(_FIRST_ROW_TRIES):
            row = self._database.fetch_one(self._sql["acquire"], params)
            if row is None:
                continue
            token, left = row
            if token is not None:
                return Lease(name, owner, token)
            return BUSY_RETRY if left is None or left <= 0 else float(left)
        return BUSY_RETRY

    def renew(self, lease: Lease, ttl: float) -> bool:
        """Let *lease* end *ttl* seconds from now.

        Returns:
            Whether it is still this one's; when not, nothing changed. A lapsed lease that
            nobody took is renewed.

        Raises:
            DatabaseError: The database failed, or a foreign transaction holds on to the
                row (``55P03``); nothing is known then.
        """
        return self._change("renew", lease, ttl=ttl)

    def renew_and_read(self, session: Session, lease: Lease, ttl: float, query: bytes) -> TupleRow:
        """Renew *lease* as `renew` does, and read something else in the same round trip.

        Args:
            session: Outside a transaction.
            lease: The lease.
            ttl: How long it holds from now, in seconds.
            query: A ``SELECT`` without parameters that returns one row.

        Returns:
            Whether the lease is still this one's, and then the columns of *query*.

        Raises:
            psycopg.Error: As `renew`, as the driver raises it.
        """
        statement = b"WITH renewed AS (%s RETURNING l.token) SELECT %s, other.* FROM (%s) AS other"
        row = session.fetch_one(
            statement % (self._sql["renew"], b"EXISTS (SELECT 1 FROM renewed)", query),
            {**_identity(lease), "ttl": ttl},
        )
        assert row is not None  # noqa: S101 - the query returns one row
        return row

    def seconds_left(self, name: str) -> float | None:
        """Return for how many seconds the present lease holds unless it is renewed.

        Returns:
            0 when the lock is free, ``None`` when its end is missing or infinite.
        """
        row = self._database.fetch_one(self._sql["seconds_left"], {"name": name})
        return 0.0 if row is None else row[0]

    def release(self, lease: Lease) -> bool:
        """Free *lease* and wake those who wait for it.

        Returns:
            Whether it was still this one's; when not, nothing changed.

        Raises:
            DatabaseError: As `renew`.
        """
        try:
            return self._change("release", lease, channel=self._channel)
        except DatabaseError as error:
            if error.sqlstate != NOTIFY_QUEUE_FULL:
                raise
        return self._change("release_silently", lease)

    def prove(self, session: Session, lease: Lease) -> bool:
        """Return whether *lease* is held, and keep it so until the transaction ends.

        Args:
            session: Inside a transaction. Until that ends nobody else can take the lease,
                even when it lapses meanwhile.
            lease: The lease to prove.
        """
        return session.fetch_one(self._sql["prove"], _identity(lease)) is not None

    def _change(self, statement: str, lease: Lease, **more: Any) -> bool:
        params = {**_identity(lease), **more}
        for pause in _BUSY_PAUSES:
            try:
                return self._database.execute(self._sql[statement], params) > 0
            except DatabaseError as error:
                if error.sqlstate != _LOCK_NOT_AVAILABLE:
                    raise
                # Somebody takes the lapsed lease at this moment, or holds on to the row.
                time.sleep(pause)
        return self._database.execute(self._sql[statement], params) > 0


def _identity(lease: Lease) -> dict[str, Any]:
    return {"name": lease.name, "owner": lease.owner, "token": lease.token}
