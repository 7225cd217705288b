"""A term: what a leader does from the moment it wants the lease until it has given it back."""

from __future__ import annotations

import logging
import time

from alkstore.errors import (
    DatabaseError,
    LeadershipLost,
    SchemaError,
    StoreClosed,
)
from alkstore.names import SCHEDULER_LOCK
from alkstore.runners.leader_watch import LeaderWatch
from alkstore.runners.say import say
from alkstore.stop_token import Parker, StopToken
from alkstore_postgres.database.database import Database
from alkstore_postgres.lock.leases import Lease, Leases
from alkstore_postgres.scheduler.failures import Failures
from alkstore_postgres.scheduler.held_lease import HeldLease
from alkstore_postgres.scheduler.instants import MICROS_PER_SECOND
from alkstore_postgres.scheduler.outlook import Outlook
from alkstore_postgres.scheduler.pacing import Pacing
from alkstore_postgres.scheduler.tick import LeaseNotProven, Ticker

logger = logging.getLogger("alkstore.scheduler")

_AHEAD = 0.005
"""A turn begins so many seconds before its boundary, to have renewed the lease by then."""

_AFTER_FIRE = 0.01
"""Boundaries that follow a tick within so many seconds share the next one."""

_STUCK_FIRST, _STUCK_LONGEST = 0.001, 1.0
"""How long to wait for rows that are due but that another transaction holds."""


class SteppedDown(LeadershipLost):
    """The lease was given back by its holder, whose ticks keep failing; others may fare better."""


class Term:
    """One run of the leader loop.

    Args:
        database: The way to the database.
        leases: Takes, renews and releases the lease.
        ticker: Fires what is due.
        owner: The owner token, unique to this run.
        ttl: The lease's time to live, in seconds; it is renewed five times as often.
        stop: Ends the term.
        watch: Told of each turn, and each renewal in a sleep, that went well, and of failures.
    """

    def __init__(
        self,
        *,
        database: Database,
        leases: Leases,
        ticker: Ticker,
        owner: str,
        ttl: float,
        stop: StopToken,
        watch: LeaderWatch | None,
    ) -> None:
        self._database = database
        self._leases = leases
        self._ticker = ticker
        self._owner = owner
        self._ttl = ttl
        self._renew_every = ttl / 5
        self._stop = stop
        self._watch = watch
        self._pacing = Pacing()
        self._failures = Failures(ttl, watch)
        self._stuck = 0
        self._fired = False
        self._naps = Parker()
        self._bell = Parker()

    def wake(self, _name: str) -> None:
        """End the present sleep: something has changed. Never blocks."""
        self._bell.unpark()

    def run(self) -> None:
        """Take the lease and lead until the stop.

        Raises:
            LeadershipLost: Another holds the lease, or took it.
            StoreClosed: The store was closed.
            SchemaError: The schema does not fit.
        """
        for parker in (self._naps, self._bell):
            self._stop.attach(parker)
        try:
            held = self._acquire()
            if held is not None:
                self._lead(held)
        finally:
            for parker in (self._naps, self._bell):
                self._stop.detach(parker)

    def _acquire(self) -> HeldLease | None:
        """Return the lease, or ``None`` when the stop came first."""
        while not self._stop.cancelled:
            try:
                answer = self._leases.acquire(SCHEDULER_LOCK, self._owner, self._ttl)
            except DatabaseError as error:
                self._rest_after(error, "the scheduler's lease could not be had")
                continue
            if isinstance(answer, Lease):
                self._failures.over()
                say(
                    logger,
                    logging.INFO,
                    "leading: lease %d is held by %s",
                    answer.token,
                    self._owner,
                )
                return HeldLease(
                    answer, database=self._database, leases=self._leases, ttl=self._ttl
                )
            raise LeadershipLost("another scheduler leads", retry_after=answer)
        return None

    def _lead(self, held: HeldLease) -> None:
        try:
            while not self._stop.cancelled:
                try:
                    outlook = self._turn(held)
                    if outlook is not None:
                        self._good_turn(held)
                        self._sleep(held, outlook)
                except (LeadershipLost, StoreClosed, SchemaError):
                    raise
                except Exception as error:  # whatever it meets, the loop outlives it
                    self._rest_after(error, "a turn of the scheduler failed")
                    if self._failures.useless:
                        raise SteppedDown(
                            "stepped down: ticks keep failing", retry_after=self._ttl
                        ) from error
        finally:
            held.release()

    def _rest_after(self, error: Exception, what: str) -> None:
        """Tell of a failure and rest before the next try; after the stop there is none."""
        if self._stop.cancelled:
            say(logger, logging.INFO, "%s as it was being stopped: %s", what, error)
        else:
            self._nap(self._failures.note(error, what))

    def _turn(self, held: HeldLease) -> Outlook | None:
        """Renew the lease and fire what is due; return what comes next."""
        self._fired = False
        debt = self._pacing.take()
        if debt:
            self._nap(debt)
        outlook = self._renew(held)
        if outlook is None:
            raise LeadershipLost(
                "the scheduler's lease is not held any more", retry_after=held.seconds_left()
            )
        if not outlook.pending:
            left = outlook.seconds_left()
            if left is None or left > 2 * _AHEAD:
                return outlook
        try:
            outlook, progress = self._tick(held, outlook)
        except LeaseNotProven:
            return None  # the renewal at the top of the next turn tells whose it is
        except Exception:
            self._failures.tick_failed()
            raise
        self._failures.tick_worked()
        self._fired = progress
        if progress:
            self._pacing.give_back()
        self._stuck = 0 if progress or not outlook.pending else self._stuck + 1
        return outlook

    def _tick(self, held: HeldLease, outlook: Outlook) -> tuple[Outlook, bool]:
        """Fire slice by slice; return what comes next and whether anything was done."""
        progress = False

        def wait(now: int) -> None:
            if outlook.soonest is not None and not outlook.pending:
                self._nap(min((outlook.soonest - now) / MICROS_PER_SECOND, 2 * _AHEAD))

        since: int | None = None
        while True:
            done = self._ticker.slice(held.lease, since=since, damaged=outlook.damaged, wait=wait)
            progress = progress or done.progress
            since = done.since
            outlook = done.outlook or outlook
            if not done.left or self._stop.cancelled:
                return outlook, progress
            if time.monotonic() - held.renewed_at >= self._renew_every:
                renewed = self._renew(held)
                if renewed is None:
                    return outlook, progress  # told at the top of the next turn
                outlook = renewed
                self._good_turn(held)

    def _sleep(self, held: HeldLease, outlook: Outlook) -> None:
        """Sleep until the next boundary, a wake or the stop, renewing the lease meanwhile."""
        since_renewal = max(time.monotonic() - held.renewed_at, 0.0)
        to_renewal = max(self._renew_every - since_renewal, 0.0)
        while not self._stop.cancelled:
            left = self._until_turn(outlook)
            span = to_renewal if left is None else min(left, to_renewal)
            if span > 0 and self._bell.park(span):
                return
            self._pacing.slept(max(span, 0.0))
            if left is not None and left <= to_renewal:
                return
            renewed = self._renew(held)
            if renewed is None or renewed.pending:
                return  # acted on at the top of the next turn
            outlook = renewed
            self._good_turn(held)
            # No clock is asked here: whatever it says, the next renewal is not at once.
            to_renewal = self._renew_every

    def _until_turn(self, outlook: Outlook) -> float | None:
        """Return how many seconds from now the next turn begins, ``None``: nothing to wait for."""
        left = outlook.seconds_left()
        if left is not None:
            left = max(left - _AHEAD, _AFTER_FIRE if self._fired else 0.0)
        if outlook.pending:
            wait = _AFTER_FIRE
            if self._stuck:
                wait = min(_STUCK_FIRST * 4.0 ** min(self._stuck - 1, 10), _STUCK_LONGEST)
            left = wait if left is None else min(left, wait)
        return left

    def _renew(self, held: HeldLease) -> Outlook | None:
        try:
            return held.renew()
        except BaseException:
            self._failures.renewal_failed()
            raise

    def _good_turn(self, held: HeldLease) -> None:
        if self._watch is not None and not self._stop.cancelled:
            self._watch.led(held.renewed_at + self._ttl)
        self._failures.over()

    def _nap(self, seconds: float) -> None:
        """Sleep; only the stop ends it early."""
        if seconds > 0 and not self._naps.park(seconds):
            self._pacing.slept(seconds)
