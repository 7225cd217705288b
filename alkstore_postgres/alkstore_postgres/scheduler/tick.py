"""The tick: fires what is due and moves the boundaries, in one transaction a slice."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import psycopg

from alkstore.errors import AlkstoreError, DatabaseError
from alkstore.options import QUEUE_DEFAULTS
from alkstore_postgres.database.database import Database
from alkstore_postgres.database.errors import NOTIFY_QUEUE_FULL, translate
from alkstore_postgres.database.session import Session
from alkstore_postgres.database.statements import Statements
from alkstore_postgres.lock.leases import Lease, Leases
from alkstore_postgres.scheduler.instants import MICROS_PER_SECOND, from_micros, to_micros
from alkstore_postgres.scheduler.outlook import Outlook
from alkstore_postgres.scheduler.plan import Firing, Plan, plan
from alkstore_postgres.scheduler.row import Row

logger = logging.getLogger("alkstore.scheduler")

MOST_ROWS = 500
"""How many schedules a slice takes at most."""

MOST_FIRES = 5_000
"""After how many fires a slice takes no further schedule."""

_FEWEST_ROWS = 8
_LOGGED = 20
_ROW_ERRORS = frozenset({"22", "23", "P0"})
"""Classes of errors that are about the values of a row: data, constraints, raised by a trigger."""


class LeaseNotProven(AlkstoreError):
    """The lease was not held when the tick's transaction began; nothing was fired."""


@dataclass(frozen=True, slots=True)
class Slice:
    """What one slice, or a whole tick, did.

    Attributes:
        fired: How many jobs it stored.
        skipped: How many boundaries it passed over.
        quarantined: How many schedules it set aside.
        left: Whether more is due than the slice took.
        outlook: What comes next.
    """

    fired: int
    skipped: int
    quarantined: int
    left: bool
    outlook: Outlook

    @property
    def progress(self) -> bool:
        """Whether anything changed."""
        return bool(self.fired or self.quarantined)


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
        self._rows = MOST_ROWS
        package = __package__
        self._sql = Statements(package, "tick.sql", database.schema)
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
        while True:
            done = self.slice(lease)
            fired += done.fired
            skipped += done.skipped
            quarantined += done.quarantined
            if not done.left:
                return Slice(fired, skipped, quarantined, left=False, outlook=done.outlook)

    def slice(
        self,
        lease: Lease | None,
        *,
        damaged: bool = True,
        watch: Callable[[psycopg.Connection[Any]], None] | None = None,
        wait: Callable[[int], None] | None = None,
    ) -> Slice:
        """Fire one slice of what is due, in one transaction.

        Args:
            lease: Proved inside the transaction; ``None``: tick without one.
            damaged: Look for schedules whose time is damaged as well.
            watch: Told which connection is used.
            wait: Called with the store clock, in microseconds, when all is ready, to wait
                for the boundary: for milliseconds, since the transaction is open.

        Raises:
            LeaseNotProven: The lease was not held when the transaction began.
            DatabaseError: Nothing was fired (or, when the connection broke during the
                commit, everything).
        """
        wakes, careful = True, False
        while True:
            began = time.monotonic()
            try:
                done, made = self._attempt(
                    lease, damaged=damaged, wakes=wakes, careful=careful, watch=watch, wait=wait
                )
            except DatabaseError as error:
                if error.retryable or error.sqlstate is None:
                    self._rows = max(self._rows // 2, _FEWEST_ROWS)
                    raise
                if wakes and (careful or error.sqlstate == NOTIFY_QUEUE_FULL):
                    # A wake is only a hint: it never fails a tick.
                    logger.warning("a tick goes without its wakes: %s", error)
                    wakes = False
                elif not careful:
                    careful = True
                else:
                    raise
            else:
                self._adapt(time.monotonic() - began)
                _tell(made)
                return done

    def _adapt(self, seconds: float) -> None:
        """Keep a slice far shorter than the lease, however slow the server is."""
        if seconds > self._limit / 2:
            self._rows = max(self._rows // 2, _FEWEST_ROWS)
        elif seconds < self._limit / 8:
            self._rows = min(self._rows * 2, MOST_ROWS)

    def _attempt(
        self,
        lease: Lease | None,
        *,
        damaged: bool,
        wakes: bool,
        careful: bool,
        watch: Callable[[psycopg.Connection[Any]], None] | None,
        wait: Callable[[int], None] | None,
    ) -> tuple[Slice, Plan]:
        with self._database.transaction() as session:
            if watch is not None:
                watch(session.connection)
            limit = f"{self._limit * 1000:.0f}ms"
            now: datetime = session.fetch_value(self._sql["limits"], {"limit": limit})
            read_at = time.monotonic()
            if lease is not None and not self._leases.prove(session, lease):
                raise LeaseNotProven("the scheduler's lease is not held any more")
            if wait is not None:
                wait(to_micros(now) + int((time.monotonic() - read_at) * MICROS_PER_SECOND))
            made, full = self._read(session, damaged=damaged)
            if made.firings:
                self._fire(session, made, careful=careful)
            if made.faults:
                params = {"schedules": list(made.faults), "reasons": list(made.faults.values())}
                session.execute(self._sql["quarantine"], params)
            outlook = self._finish(session, made, wakes=wakes)
            return (
                Slice(
                    fired=sum(len(firing.fires) for firing in made.firings),
                    skipped=sum(firing.passed_over for firing in made.firings),
                    quarantined=len(made.faults),
                    left=full or made.left,
                    outlook=outlook,
                ),
                made,
            )

    def _read(self, session: Session, *, damaged: bool) -> tuple[Plan, bool]:
        """Lock and judge the rows of a slice; return whether there may be more."""
        statements = ("due", "missing", "beyond") if damaged else ("due",)
        found: list[Sequence[Any]] = []
        full = False
        for statement in statements:
            rows = session.fetch_all(self._sql[statement], {"rows": self._rows})
            full = full or len(rows) == self._rows
            found.extend(rows)
        if not found:
            return Plan(), False
        # All of them were due at the time of the first statement.
        now = to_micros(found[0][0])
        return plan((Row.read(columns[1:]) for columns in found), now, MOST_FIRES), full

    def _fire(self, session: Session, made: Plan, *, careful: bool) -> None:
        if not careful:
            self._store(session, made.firings)
            return
        # Some row broke the statement: it is found by halving, and set aside.
        batches = [made.firings]
        made.firings = []
        while batches:
            batch = batches.pop()
            try:
                with session.connection.transaction():
                    self._store(session, batch)
            except psycopg.Error as error:
                if (error.sqlstate or "")[:2] not in _ROW_ERRORS:
                    raise
                if len(batch) == 1:
                    made.faults[batch[0].name] = f"its jobs cannot be stored: {translate(error)}"
                else:
                    half = len(batch) // 2
                    batches += [batch[half:], batch[:half]]
            else:
                made.firings += batch

    def _store(self, session: Session, firings: Sequence[Firing]) -> None:
        fires = sorted(
            (boundary, number, firing.name)
            for number, firing in enumerate(firings)
            for boundary in firing.fires
        )
        session.execute(
            self._sql["fire"],
            {
                "fired": [name for _, _, name in fires],
                "boundaries": [from_micros(boundary) for boundary, _, _ in fires],
                "max_attempts": QUEUE_DEFAULTS.max_attempts,
                "visibility_timeout": QUEUE_DEFAULTS.visibility_timeout,
                "base_backoff": QUEUE_DEFAULTS.base_backoff,
                "moved": [firing.name for firing in firings],
                "next_fire_ats": [from_micros(firing.next_boundary) for firing in firings],
                "last_fire_ats": [from_micros(firing.fires[-1]) for firing in firings],
                "skipped": [firing.skipped for firing in firings],
            },
        )

    def _finish(self, session: Session, made: Plan, *, wakes: bool) -> Outlook:
        """Send the wakes of what was fired and read what comes next."""
        queues = list(dict.fromkeys(firing.queue for firing in made.firings)) if wakes else []
        asked_at = time.monotonic()
        if queues:
            params = {"channel": self._channel, "queues": queues}
            row = session.fetch_one(self._wakes_and_outlook, params)
        else:
            row = session.fetch_one(self._outlook)
        assert row is not None  # noqa: S101 - the statement returns one row
        return Outlook.read(row[:4], asked_at)


def _tell(made: Plan) -> None:
    """Log what was set aside or passed over, once it is committed."""
    for name, reason in list(made.faults.items())[:_LOGGED]:
        logger.error("schedule %a is quarantined until it is registered again: %s", name, reason)
    skipping = [firing for firing in made.firings if firing.passed_over]
    for firing in skipping[:_LOGGED]:
        logger.warning(
            "schedule %a skipped %d boundaries (%d fired)",
            firing.name,
            firing.passed_over,
            len(firing.fires),
        )
    unsaid = max(len(made.faults) - _LOGGED, 0) + max(len(skipping) - _LOGGED, 0)
    if unsaid:
        logger.warning("%d further schedules were quarantined or skipped boundaries", unsaid)
