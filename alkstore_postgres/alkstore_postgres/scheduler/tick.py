"""The tick: fires what is due and moves the boundaries, in one transaction a slice."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime

from alkstore.errors import AlkstoreError, DatabaseError
from alkstore.runners.say import say
from alkstore_postgres.database.arrays import TidArray
from alkstore_postgres.database.database import Database
from alkstore_postgres.database.errors import NOTIFY_QUEUE_FULL
from alkstore_postgres.database.session import Session
from alkstore_postgres.database.statements import Statements
from alkstore_postgres.lock.leases import Lease, Leases
from alkstore_postgres.scheduler.fires import Fires, JobsMissing
from alkstore_postgres.scheduler.instants import (
    MICROS_PER_SECOND,
    from_micros,
    in_calendar,
    to_micros,
)
from alkstore_postgres.scheduler.outlook import Outlook
from alkstore_postgres.scheduler.plan import Fault, Plan, plan
from alkstore_postgres.scheduler.row import Row, fault
from alkstore_postgres.scheduler.slice_size import SliceSize
from alkstore_postgres.scheduler.slices import Mode, Slice, tell

logger = logging.getLogger("alkstore.scheduler")

MOST_FIRES = 5_000
"""After how many fires a slice takes no further schedule."""


class LeaseNotProven(AlkstoreError):
    """The lease was not held when the tick's transaction began; nothing was fired."""


class Ticker:
    """Fires due schedules. Any number of them may tick at once: each boundary fires once.

    Args:
        database: The way to the database.
        leases: Proves the lease.
        channel: The notification channel of the schema.
        ttl: The lease's time to live, in seconds: each statement of a slice, and each
            pause of its client, is ended by the server within a quarter of it.
    """

    def __init__(self, database: Database, leases: Leases, channel: str, ttl: float) -> None:
        self._database = database
        self._leases = leases
        self._channel = channel
        self._limit = ttl / 4
        self._size = SliceSize(self._limit)
        self._refused = 0
        package = __package__
        self._sql = Statements(package, "tick.sql", database.schema)
        self._fires = Fires(self._sql["fire"])
        self._outlook = Statements(package, "outlook.sql", database.schema)["outlook"]
        self._wakes_and_outlook = b"SELECT other.*, sent.* FROM (%s) AS sent, (%s) AS other" % (
            self._sql["wakes"],
            self._outlook,
        )

    def tick(self, lease: Lease | None) -> Slice:
        """Fire all that is due, slice by slice; return the sum.

        Args:
            lease: Proved inside each slice; ``None``: tick without one.

        Raises:
            LeaseNotProven: The lease was not held when a slice began.
            DatabaseError: A slice failed; what earlier ones fired stays.
        """
        fired = skipped = quarantined = 0
        since: int | None = None
        while True:
            done = self.slice(lease, since=since)
            fired += done.fired
            skipped += done.skipped
            quarantined += done.quarantined
            since = done.since
            if not done.left:
                return replace(done, fired=fired, skipped=skipped, quarantined=quarantined)

    def slice(
        self,
        lease: Lease | None,
        *,
        since: int | None = None,
        damaged: bool = True,
        wait: Callable[[int], None] | None = None,
    ) -> Slice:
        """Fire one slice of what is due, in one transaction.

        Args:
            lease: Proved inside the transaction; ``None``: tick without one.
            since: Where the slice before this one of the same tick ended, in microseconds
                since 2000.
            damaged: Look for schedules whose time is damaged as well.
            wait: Called with the store clock, in microseconds, when all is ready, to wait
                for the boundary: for milliseconds, since the transaction is open.

        Raises:
            LeaseNotProven: The lease was not held when the transaction began.
            DatabaseError: Nothing was fired (or, when the connection broke during the
                commit, everything).
        """
        wakes, careful = True, False
        while True:
            try:
                done, made = self._attempt(Mode(since, damaged, wakes, careful), lease, wait)
            except JobsMissing as error:
                if careful:
                    raise
                say(
                    logger,
                    logging.WARNING,
                    "a slice of a tick is undone and looked at again: %s",
                    error,
                )
                careful = True
            except DatabaseError as error:
                if error.retryable or error.sqlstate is None:
                    self._size.failed()
                    raise
                if wakes and (careful or error.sqlstate == NOTIFY_QUEUE_FULL):
                    # A wake is only a hint: it never fails a tick.
                    say(logger, logging.WARNING, "a tick goes without its wakes: %s", error)
                    wakes = False
                elif not careful:
                    careful = True
                else:
                    raise
            else:
                tell(made, refused_before=self._refused)
                self._refused = max(self._refused, made.refused)
                return done

    def _attempt(
        self,
        mode: Mode,
        lease: Lease | None,
        wait: Callable[[int], None] | None,
    ) -> tuple[Slice, Plan]:
        self._size.taken = 0
        with self._database.transaction() as session:
            limit = f"{self._limit * 1000:.0f}ms"
            asked_at = time.monotonic()
            now: datetime = session.fetch_value(self._sql["limits"], {"limit": limit})
            read_at = time.monotonic()
            if lease is not None and not self._leases.prove(session, lease):
                raise LeaseNotProven("the scheduler's lease is not held any more")
            if wait is not None:
                wait(to_micros(now) + int((time.monotonic() - read_at) * MICROS_PER_SECOND))
            began = time.monotonic()
            made, places, since = self._read(session, mode)
            if mode.careful:
                self._fires.store_carefully(session, made, places)
            else:
                self._fires.store(session, made.firings, places)
            # The way there and back is no work: what limits took, for each of the statements.
            work = time.monotonic() - began - (4 if mode.damaged else 2) * (read_at - asked_at)
            self._quarantine(session, made, places)
            if not (made.firings or made.faults) and not _later(since, mode.since):
                made.left = False  # nothing changed: the next slice would find the same
            outlook = self._finish(session, made, wakes=mode.wakes)
            done = Slice(
                fired=sum(len(firing.fires) for firing in made.firings),
                skipped=sum(firing.passed_over for firing in made.firings),
                quarantined=len(made.faults),
                left=made.left,
                since=since,
                outlook=outlook,
            )
        self._size.took(work, full=done.left)
        return done, made

    def _read(self, session: Session, mode: Mode) -> tuple[Plan, list[bytes], int | None]:
        """Lock and judge the rows of a slice; return where they are, and where the next goes on."""
        since = "-infinity" if mode.since is None else from_micros(mode.since)
        limit = self._size.taken = self._size.rows
        params = {"rows": limit, "since": since}
        due = session.fetch_raw(self._sql["due"], params)
        places = [columns[1] for columns in due]
        rows = [Row._make(columns[2:]) for columns in due]
        made = plan(rows, due[0][0], MOST_FIRES) if due else Plan()
        self._size.taken = made.reached
        reached = rows[made.reached - 1].boundary if rows else None
        made.left = made.left or len(due) == limit
        if mode.damaged:
            for statement in ("missing", "beyond"):
                found = session.fetch_raw(self._sql[statement], params)
                made.left = made.left or len(found) == limit
                for place, row in ((columns[1], Row._make(columns[2:])) for columns in found):
                    made.faults.append(Fault(len(places), row.name, fault(row) or ""))
                    places.append(place)
        if reached is not None and not in_calendar(reached):
            reached = None
        return made, places, reached

    def _quarantine(self, session: Session, made: Plan, places: list[bytes]) -> None:
        """Set the faulty ones aside; the plan keeps those for which that worked."""
        faults = made.faults
        if not faults:
            return
        params = {
            "places": TidArray([places[bad.number] for bad in faults]),
            "reasons": [bad.reason for bad in faults],
        }
        done = {number for (number,) in session.fetch_all(self._sql["quarantine"], params)}
        made.faults = [bad for number, bad in enumerate(faults, 1) if number in done]
        made.refused = len(faults) - len(made.faults)

    def _finish(self, session: Session, made: Plan, *, wakes: bool) -> Outlook | None:
        """Send the wakes of what was fired; the last slice reads what comes next as well."""
        queues = list(dict.fromkeys(firing.queue for firing in made.firings)) if wakes else []
        params = {"channel": self._channel, "queues": queues}
        asked_at = time.monotonic()
        if made.left:
            if queues:
                session.execute(self._sql["wakes"], params)
            return None
        if queues:
            row = session.fetch_one(self._wakes_and_outlook, params)
        else:
            row = session.fetch_one(self._outlook)
        assert row is not None  # noqa: S101 - the statement returns one row
        return Outlook.read(row[:4], asked_at)


def _later(since: int | None, before: int | None) -> bool:
    """Return whether a slice that begins at *since* leaves something of the one before out."""
    return since is not None and (before is None or since > before)
