"""Claiming jobs, and sleeping until there is one to claim."""

from __future__ import annotations

import os
import time
from operator import itemgetter
from typing import Any, NamedTuple

from psycopg.rows import TupleRow

from alkstore.codec import Codec
from alkstore.stop_token import Parker, StopToken
from alkstore_postgres.database.arrays import UuidBytes
from alkstore_postgres.database.database import Database
from alkstore_postgres.database.session import Session
from alkstore_postgres.database.statements import Statements
from alkstore_postgres.queue.claim_places import ClaimPlaces, Place
from alkstore_postgres.queue.claim_streaks import ClaimStreaks
from alkstore_postgres.queue.handle import ClaimedRow, PostgresJobHandle
from alkstore_postgres.queue.settler import Settler
from alkstore_postgres.wakes.hub import WakeHub

_POLL = 5.0
"""A waiting claimer looks again after this many seconds at the latest."""

_SHORTEST_SLEEP = 0.02
"""What is due but held by others for a moment is not asked for in a hot loop."""

_SWEEP_BATCH = 10_000


class Claimer:
    """Takes jobs for workers.

    Args:
        database: The way to the database.
        hub: Where wakes are heard.
        settler: Settles the claims that are handed out.
        codec: Decodes payloads.
        places: Where claims may begin while full looks are slow.
    """

    def __init__(
        self,
        database: Database,
        hub: WakeHub,
        settler: Settler,
        codec: Codec,
        places: ClaimPlaces,
    ) -> None:
        self._database = database
        self._hub = hub
        self._settler = settler
        self._codec = codec
        self._places = places
        self._streaks = ClaimStreaks()
        self._sql = Statements(__package__, "claim.sql", database.schema)

    def check_open(self) -> None:
        """Raise `StoreClosed` when the store was closed."""
        self._database.check_open()

    def claim(self, queue: str, worker_id: str, limit: int) -> list[PostgresJobHandle]:
        """Claim up to *limit* jobs, without waiting."""
        claim = _Claim(queue, worker_id, limit)
        return self._claim_behind(claim) or self._look(claim)[0]

    def claim_wait(
        self,
        queue: str,
        worker_id: str,
        limit: int,
        timeout: float | None,
        stop: StopToken | None,
    ) -> list[PostgresJobHandle]:
        """Claim up to *limit* jobs, sleeping up to *timeout* seconds until there is one."""
        deadline = None if timeout is None else time.monotonic() + timeout
        sleeper = _Sleeper()
        claim = _Claim(queue, worker_id, limit)
        more = False
        if stop is not None:
            stop.attach(sleeper.parker)
        try:
            # Of many idle workers of this process a wake rouses one.
            self._hub.attach(queue, sleeper.wake, shared=True)
            while stop is None or not stop.cancelled:
                # Where others sleep beside this one, it has to tell whether there is more for them.
                woken, sleeper.woken = sleeper.woken, False
                claim.hinted = woken and self._hub.is_alone(queue)
                try:
                    handles, nap = self._try(claim)
                except BaseException:
                    sleeper.woken = sleeper.woken or woken  # it has not looked
                    raise
                if handles:
                    more = claim.more
                    return handles
                left = _POLL if deadline is None else deadline - time.monotonic()
                if left <= 0:
                    return []
                sleeper.parker.park(min(nap, left))
                claim.follow_fork()
            return []
        finally:
            try:
                self._hub.detach(queue, sleeper.wake)
            except BaseException:  # Ctrl-C: one that stayed would take wakes for ever
                self._hub.detach(queue, sleeper.wake)
                raise
            finally:
                if stop is not None:
                    stop.detach(sleeper.parker)
                if more or sleeper.woken:
                    self._hub.pass_on(queue)

    def _try(self, claim: _Claim) -> tuple[list[PostgresJobHandle], float]:
        """Return what there is to claim, and in how many seconds to try again if nothing."""
        handles = self._claim_behind(claim)
        if handles is not None:
            patience = self._places.patience(claim.queue, time.monotonic())
            if handles or patience > 0:
                return handles, min(patience, _POLL)
        handles, due = self._look(claim)
        return handles, _POLL if due is None else min(max(due, _SHORTEST_SLEEP), _POLL)

    def _claim_behind(self, claim: _Claim) -> list[PostgresJobHandle] | None:
        """Claim behind the remembered place; ``None``: there is none."""
        place = self._places.begin(claim.queue, time.monotonic())
        if place is None:
            return None
        rows = self._database.fetch_all(self._statement(claim), claim.params(place=place))
        if rows[-1][_ID] is None:
            return []
        self._places.reached(claim.queue, _place(rows[-1]))
        claim.more = bool(rows[-1][_MORE])
        return self._handles(claim, rows)

    def _look(self, claim: _Claim) -> tuple[list[PostgresJobHandle], float | None]:
        """Claim with a full look; also return in how many seconds more becomes due."""
        short = self._short(claim)
        if short is not None and (rows := self._claim_shortly(short, claim)):
            claim.more = True  # as far as it tells
            return self._handles(claim, rows), None
        rows = self._database.fetch_all(self._statement(claim), claim.params())
        if swept := bool(rows[0][_OVERDUE]):
            rows = self._sweep_and_look(claim)
        self._looked(claim, rows)
        found = 0 if rows[0][_ID] is None else len(rows)
        if short is None:
            if claim.hinted:
                self._streaks.woken(claim.queue, found=found > 0)
        elif not swept and found >= (claim.limit if short.in_streak else 1):
            self._streaks.overlooked(claim.queue, in_streak=short.in_streak)
        claim.more = bool(rows[0][_MORE])  # NULL: fewer than were asked for
        self._streaks.looked(claim.queue, more=claim.more)
        return self._handles(claim, rows), rows[0][_DUE]

    def _short(self, claim: _Claim) -> _Short | None:
        """Return the short statement that is likely to be enough."""
        queue = claim.queue
        in_streak = self._streaks.goes_on(queue)
        slow = self._places.is_slow(queue)
        if not in_streak and (slow or not claim.hinted or not self._streaks.trusts(queue)):
            return None
        if claim.limit == 1:  # of which there are enough, or none
            names = _CLAIM_SOME if slow else _CLAIM_ONE
        else:
            names = _CLAIM_ALL if in_streak else _CLAIM_SOME
        return _Short(names[self._streaks.looks_below(queue)], in_streak)

    def _claim_shortly(self, short: _Short, claim: _Claim) -> list[TupleRow]:
        """Claim with a short statement; return what it claimed, if anything, in claim order."""
        queue = claim.queue
        rows = self._database.fetch_all(self._sql.variant(short.name, claim.limit), claim.params())
        if len(rows) > 1:
            rows.sort(key=lambda row: (row[_RUN_AT], row[_ID]))
        if short.in_streak:
            if rows:
                self._looked(claim, rows)
            else:  # at once: others of this process need not try it
                self._streaks.broke(queue)
        elif rows:
            self._streaks.kept(queue)
        else:
            self._streaks.deceived(queue)
        return rows

    def _looked(self, claim: _Claim, rows: list[TupleRow]) -> None:
        took = max(map(_TIME_TAKEN, rows))
        if self._places.is_quick(claim.queue, took, len(rows)):
            return
        last = rows[-1]
        self._places.looked(
            claim.queue,
            time.monotonic(),
            took,
            None if last[_ID] is None else _place(last),
            len(rows),
        )

    def _sweep_and_look(self, claim: _Claim) -> list[TupleRow]:
        """Put lapsed and expired jobs where they belong, then claim, in one transaction.

        When there are more than a batch of them, each full batch is committed by itself: a
        million jobs that expired together neither hold locks for long nor have to be swept
        again because the last statement failed.
        """
        sweep = {"queue": claim.queue, "batch": _SWEEP_BATCH}

        def attempt(session: Session) -> list[TupleRow]:
            if session.fetch_value(self._sql["sweep"], sweep):
                return []
            return session.fetch_all(self._statement(claim), claim.params(swept=True))

        while True:
            rows = self._database.run(attempt)
            if rows:
                return rows

    def _statement(self, claim: _Claim) -> bytes:
        return self._sql.variant("claim", claim.limit)

    def _handles(self, claim: _Claim, rows: list[TupleRow]) -> list[PostgresJobHandle]:
        return [
            PostgresJobHandle(_claimed(row, claim), self._settler, self._codec)
            for row in rows
            if row[_ID] is not None
        ]


class _Sleeper:
    """A waiting claimer."""

    __slots__ = ("parker", "woken")

    def __init__(self) -> None:
        self.parker = Parker()
        self.woken = False

    def wake(self, _name: str) -> None:
        """Take a wake; it is passed on unless a claim follows it."""
        self.woken = True
        self.parker.unpark()


class _Claim:
    """One call: its arguments, the identity that its claims will have, whether there is more.

    Attributes:
        hinted: Whether it follows a wake that was for nobody else.
        more: Whether there was more, as far as the last look tells.
    """

    __slots__ = ("_pid", "claim_id", "hinted", "limit", "more", "queue", "worker_id")

    def __init__(self, queue: str, worker_id: str, limit: int) -> None:
        self.queue = queue
        self.worker_id = worker_id
        self.limit = limit
        self.hinted = False
        self.more = False
        self._identify()

    def _identify(self) -> None:
        self.claim_id = UuidBytes(os.urandom(16))  # as random as a uuid can be
        self._pid = os.getpid()

    def follow_fork(self) -> None:
        """In a child that goes on with the call take another identity: that one is the parent's."""
        if self._pid != os.getpid():
            self._identify()

    def params(self, *, swept: bool = False, place: Place | None = None) -> dict[str, Any]:
        """Return the parameters of the statement."""
        return {
            "queue": self.queue,
            "worker_id": self.worker_id,
            "limit": self.limit,
            "claim_id": self.claim_id,
            "swept": swept,
            "level": None if place is None else place.priority,
            "after_run_at": None if place is None else place.run_at,
            "after_id": None if place is None else place.id,
        }


class _Short(NamedTuple):
    """A short statement.

    Attributes:
        name: Its name.
        in_streak: Whether it follows a claim that got all that it asked for; else, a wake.
    """

    name: str
    in_streak: bool


# The short statements: of the highest priority, and of the highest that has something due. The one
# for a single job walks over all that others have locked, due or not: not while looks are slow.
_CLAIM_ONE = ("claim_first", "claim_some_below")
_CLAIM_SOME = ("claim_some", "claim_some_below")
_CLAIM_ALL = ("claim_more", "claim_more_below")


# The columns of the claim statement's rows.
_OVERDUE, _TOOK, _DUE, _ID = range(4)
_PRIORITY, _RUN_AT, _MORE = 12, 13, 14
_TIME_TAKEN = itemgetter(_TOOK)


def _place(row: TupleRow) -> Place:
    return Place(row[_PRIORITY], row[_RUN_AT], row[_ID])


def _claimed(row: TupleRow, claim: _Claim) -> ClaimedRow:
    # In the order of the statement's columns.
    return ClaimedRow(row[_ID], claim.queue, claim.claim_id, *row[_ID + 1 : _PRIORITY])
