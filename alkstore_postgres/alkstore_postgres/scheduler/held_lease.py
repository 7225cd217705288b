"""The lease of a term while it is held: renewed, looked at, given back."""

from __future__ import annotations

import logging
import time

from alkstore.errors import DatabaseError, SchemaError, StoreClosed
from alkstore.runners.say import say
from alkstore_postgres.database.database import Database
from alkstore_postgres.database.session import Session
from alkstore_postgres.database.statements import Statements
from alkstore_postgres.lock.leases import Lease, Leases
from alkstore_postgres.scheduler.outlook import Outlook

logger = logging.getLogger("alkstore.scheduler")


class HeldLease:
    """A lease that was taken, with the calls that keep it and give it back.

    Args:
        lease: The lease.
        database: The way to the database.
        leases: Renews and releases it.
        ttl: The lease's time to live, in seconds.

    Attributes:
        lease: The lease, to be proved by ticks.
        renewed_at: The monotonic time just before its last renewal was asked for.
    """

    def __init__(self, lease: Lease, *, database: Database, leases: Leases, ttl: float) -> None:
        self.lease = lease
        self.renewed_at = 0.0
        self._database = database
        self._leases = leases
        self._ttl = ttl
        self._outlook_sql = Statements(__package__, "outlook.sql", database.schema)["outlook"]

    def renew(self) -> Outlook | None:
        """Renew the lease and see what comes next, in one round trip.

        Returns:
            ``None`` when it is not this one's any more.

        Raises:
            DatabaseError: Nothing is known: it may be another's by now.
        """
        asked_at = time.monotonic()
        with self._database.connection() as connection:
            renewed, *columns = self._leases.renew_and_read(
                Session(connection), self.lease, self._ttl, self._outlook_sql
            )
        if not renewed:
            return None
        self.renewed_at = asked_at
        return Outlook.read(columns, asked_at)

    def seconds_left(self) -> float | None:
        """Return how long whoever holds it now has left; ``None`` when that is not known."""
        try:
            return self._leases.seconds_left(self.lease.name)
        except DatabaseError:
            return None

    def release(self) -> None:
        """Give the lease back, as well as it goes; of another's lease nothing changes."""
        try:
            released = self._leases.release(self.lease)
        except (DatabaseError, SchemaError, StoreClosed) as error:
            say(
                logger,
                logging.WARNING,
                "the scheduler's lease was not given back, it will lapse: %s",
                error,
            )
        else:
            told = "given back" if released else "was lost"
            say(logger, logging.INFO, "lease %d %s", self.lease.token, told)
