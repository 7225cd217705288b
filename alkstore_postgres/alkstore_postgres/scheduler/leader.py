"""The leader loop: exactly one runner fires schedules, and another takes over when it ends."""

from __future__ import annotations

import uuid

from alkstore.names import SCHEDULER_LOCK
from alkstore.runners.leader_watch import LeaderWatch
from alkstore.stop_token import StopToken
from alkstore_postgres.database.database import Database
from alkstore_postgres.lock.leases import Leases
from alkstore_postgres.scheduler.attendant import Attendant
from alkstore_postgres.scheduler.term import Term
from alkstore_postgres.scheduler.tick import Ticker
from alkstore_postgres.wakes.channel import wake_channel
from alkstore_postgres.wakes.hub import WakeHub

TTL = 10.0
"""How long the lease holds without a renewal, in seconds; it is renewed every fifth of it."""


class LeaderLoop:
    """Leads: holds the scheduler's lease, fires what is due, sleeps until the next boundary.

    Args:
        database: The way to the database.
        hub: Tells of changes.
        ttl: The lease's time to live, in seconds.
    """

    def __init__(self, database: Database, hub: WakeHub, *, ttl: float = TTL) -> None:
        self._database = database
        self._hub = hub
        self._ttl = ttl

    def run(self, stop: StopToken, watch: LeaderWatch | None = None) -> None:
        """Lead until *stop* is cancelled; see `Scheduler.run_schedules`.

        Returns within 100 ms of the cancellation, the lease given back unless the
        database does not answer.

        Args:
            stop: Ends the loop.
            watch: Told, in another thread, of each turn or renewal as the leader that went
                well, and of each failure, which is logged here only when nobody is told; and
                of the thread of a call that outlasts this one.

        Raises:
            LeadershipLost: Another runner holds the lease, or took it; with the seconds
                until that lease ends as ``retry_after``.
            StoreClosed: The store was closed.
            SchemaError: The schema does not fit.
        """
        # Nothing of the loop goes to the database without the attendant.
        attendant = Attendant(self._ttl, None if watch is None else watch.left)
        database = attendant.watching(self._database)
        channel = wake_channel(database.schema)
        leases = Leases(database, channel)

        def lead(own: StopToken) -> None:
            term = Term(
                database=database,
                leases=leases,
                ticker=Ticker(database, leases, channel, self._ttl),
                owner=uuid.uuid4().hex,
                ttl=self._ttl,
                stop=own,
                watch=watch,
            )
            sink = term.wake
            self._hub.attach(SCHEDULER_LOCK, sink)
            try:
                term.run()
            finally:
                self._hub.detach(SCHEDULER_LOCK, sink)

        attendant.run(lead, stop)
