"""Stores what a slice fires; a row whose jobs cannot be stored is found, and set aside."""

from __future__ import annotations

from collections.abc import Sequence

import psycopg

from alkstore.errors import DatabaseError
from alkstore.options import QUEUE_DEFAULTS
from alkstore_postgres.database.arrays import LongArray, MomentArray, TidArray
from alkstore_postgres.database.errors import translate
from alkstore_postgres.database.session import Session
from alkstore_postgres.scheduler.plan import Fault, Firing, Plan

_ROW_ERRORS = frozenset({"22", "23", "P0"})
"""Classes of errors that are about the values of a row: data, constraints, raised by a trigger."""


class JobsMissing(DatabaseError):
    """Other than one job for each boundary was stored; nothing of it may be committed."""


class Fires:
    """Stores the jobs of a slice and moves its schedules.

    Args:
        statement: The statement ``fire``.
    """

    def __init__(self, statement: bytes) -> None:
        self._statement = statement

    def store(self, session: Session, firings: Sequence[Firing], places: Sequence[bytes]) -> None:
        """Store one job for each boundary and move the schedules, in one statement.

        Args:
            session: Inside the transaction that has locked the rows.
            firings: What is fired.
            places: Where the rows of the slice are, by number.

        Raises:
            JobsMissing: There are not as many new jobs as boundaries.
            psycopg.Error: The statement failed.
        """
        if not firings:
            return
        fires = [
            (boundary, firing.name, owner)
            for owner, firing in enumerate(firings, 1)
            for boundary in firing.fires
        ]
        fires.sort()
        stored = session.execute(
            self._statement,
            {
                "owners": LongArray([owner for _, _, owner in fires]),
                "boundaries": MomentArray([boundary for boundary, _, _ in fires]),
                "max_attempts": QUEUE_DEFAULTS.max_attempts,
                "visibility_timeout": QUEUE_DEFAULTS.visibility_timeout,
                "base_backoff": QUEUE_DEFAULTS.base_backoff,
                "places": TidArray([places[firing.number] for firing in firings]),
                "next_fire_ats": MomentArray([firing.next_boundary for firing in firings]),
                "last_fire_ats": MomentArray([firing.fires[-1] for firing in firings]),
                "skipped": LongArray([firing.skipped for firing in firings]),
            },
        )
        if stored != len(fires):
            raise JobsMissing(f"{stored} jobs were stored for {len(fires)} boundaries")

    def store_carefully(self, session: Session, made: Plan, places: Sequence[bytes]) -> None:
        """As `store`, under savepoints: rows that break the statement are found by halving.

        They go from the plan's firings to its faults.

        Raises:
            psycopg.Error: It failed over something that is no row's fault.
        """
        batches = [made.firings]
        made.firings = []
        while batches:
            batch = batches.pop()
            try:
                with session.connection.transaction():
                    self.store(session, batch, places)
            except (psycopg.Error, JobsMissing) as error:
                if not _is_about_a_row(error):
                    raise
                if len(batch) == 1:
                    told = translate(error) if isinstance(error, psycopg.Error) else error
                    (firing,) = batch
                    reason = f"its jobs cannot be stored: {told}"
                    made.faults.append(Fault(firing.number, firing.name, reason))
                else:
                    half = len(batch) // 2
                    batches += [batch[half:], batch[:half]]
            else:
                made.firings += batch


def _is_about_a_row(error: psycopg.Error | JobsMissing) -> bool:
    # A trigger or a rule may swallow the jobs of one schedule, too.
    return isinstance(error, JobsMissing) or (error.sqlstate or "")[:2] in _ROW_ERRORS
