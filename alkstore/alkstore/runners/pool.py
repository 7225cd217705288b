"""The pool of handler threads behind a worker or an outbox relay."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from functools import partial
from typing import Any

from alkstore._typing import override
from alkstore.arguments import positive_int
from alkstore.names import check_name
from alkstore.runners.attempt import Outcome
from alkstore.runners.claims import Claims, Seat
from alkstore.runners.crew import Crew
from alkstore.runners.identity import default_worker_id
from alkstore.runners.pulse import PulseToken
from alkstore.runners.settlement import Settlement
from alkstore.runners.supervisor import AFTER_GRACE, Supervisor
from alkstore.stop_token import StopToken
from alkstore.traits import JobHandle, Queue

MAX_CONCURRENCY = 1_000

_PART = "claims"

_EXACT = 16
"""Up to so many jobs are asked for by their number."""

_AHEAD_WAIT = 0.05
"""A claim that asks for more than there are free handlers waits for so many seconds: it goes by how
quick the last jobs were, and those that come later may be slow."""

_LOOK_UP = 10.0
"""How often a claimer whose handlers are all busy shows that it lives, in seconds."""

_RECALL_AFTER = 1.0
"""Claims that no handler has begun for so long are given back, in seconds."""

_RECALL_EVERY = 0.25
"""They are looked for so often at most, in seconds."""

_MUSTER_EVERY = 0.25
"""Handler threads that died are looked for so often at most, in seconds."""

_RELEASE_TIME = AFTER_GRACE * 0.8
"""How long after the grace the releases may take, in seconds."""


class JobPool(Supervisor):
    """Claims jobs for free handler threads and settles what becomes of them.

    One thread claims and, at the end, sees to it that nothing is left behind; one writes
    the outcomes; up to *concurrency* threads, started when they are needed, call the
    application's code, and claim in place of the first one while they are idle. No thread holds a
    connection while the application's code runs.

    On stop nothing more is claimed, and claims that no handler has begun are released at
    once. Running handlers may finish until the grace is over; then their claims are
    released, the attempts given back.

    Args:
        name: What it runs.
        queue: Where the jobs come from.
        concurrency: How many handlers at once, 1 to 1,000.
        worker_id: Who claims; ``None``: the host, the process and a random text.

    Raises:
        InvalidOption: *concurrency* is out of range.
        InvalidName: *worker_id* breaks the naming rule.
    """

    def __init__(
        self, name: str, queue: Queue, concurrency: int, worker_id: str | None = None
    ) -> None:
        super().__init__(name)
        self._queue = queue
        self._concurrency = positive_int(concurrency, "concurrency", most=MAX_CONCURRENCY)
        self._worker_id = (
            default_worker_id() if worker_id is None else check_name(worker_id, "worker")
        )
        self._claims = Claims()
        self._settlement = Settlement(queue, self._claims, self._status)
        self._crew = Crew()
        self._claiming = False
        self._dismissed = False
        self._muster_at = 0.0
        self._unmanned = False
        self._careful = True
        self._pausing = False

    # -- for subclasses

    def _attempt(self, handle: JobHandle) -> Outcome:
        """Call the application's code; never raises."""
        raise NotImplementedError

    def _tell(self, handle: JobHandle, outcome: Outcome) -> None:
        """Tell of an attempt that has ended, before its outcome is written."""
        raise NotImplementedError

    def _begin_beside(self) -> None:
        """Start what keeps and settles claims."""
        self._spawn("settlement", self._settle)

    def _ahead(self) -> int:
        """Return how many claims to hold ready beyond the free handlers."""
        return 0

    def _measure_anew(self) -> None:
        """Forget how quick the jobs were: those that come after a pause may be of another kind."""

    # -- the machine

    @override
    def _begin(self) -> None:
        self._begin_beside()
        # Last: what cannot be kept or settled is not claimed.
        self._spawn(_PART, self._claim)

    @override
    def _hurry(self) -> None:
        if not self._claiming:
            # It was not started, or not yet: then it will see the stop before it claims.
            self._dismiss()
        self._claims.claimer.unpark()

    @override
    def _given_up(self) -> list[threading.Thread]:
        return self._crew.threads() if self._dismissed and self._cut_short else []

    @override
    def _details(self) -> dict[str, Any]:
        return {
            "concurrency": self._concurrency,
            "running": self._claims.running,
            "in_hand": self._claims.in_hand,
            "finished": self._claims.finished,
        }

    def _claim(self) -> None:
        """Claim until the stop, then end what is in hand."""
        self._claiming = True  # before the first look at the stop; see `_hurry`
        stop = PulseToken(self._token, self._alive)
        waits = False
        recall_at = 0.0
        self._token.attach(self._claims.claimer)
        try:
            while not self._token.cancelled:
                self._muster()
                self._grow(0)
                # Others may be idle, and want what lies here behind handlers that turned out slow.
                if (now := time.monotonic()) >= recall_at:
                    self._claims.recall(_RECALL_AFTER, len(self._crew))
                    recall_at = now + _RECALL_EVERY
                limit = self._room()
                if limit > 0:
                    if not waits:
                        # The first claim does not wait: it tells whether things work (again).
                        self._admit(self._queue.claim(self._worker_id, limit))
                    elif self._has_idle_handler():
                        self._claims.entrust(partial(self._claim_wait, limit, stop))
                    else:
                        self._claim_wait(limit, stop)
                    self._status.good(_PART, "working")
                    waits = True
                else:
                    # Nothing is to be claimed, so nothing can fail.
                    self._status.good(_PART, "working")
                    self._claims.claimer.park(_RECALL_AFTER if self._claims.unstarted else _LOOK_UP)
            self._finish()
        finally:
            self._token.detach(self._claims.claimer)

    def _has_idle_handler(self) -> bool:
        """Return whether a handler thread has nothing to do.

        It waits for a claim in any case. When it does so at the source it begins at once with what
        it claims, and nobody has to be woken for that.
        """
        return len(self._crew) > self._claims.occupied

    def _claim_wait(self, limit: int, stop: StopToken) -> None:
        timeout = _RECALL_AFTER if self._claims.unstarted else None
        if limit > self._concurrency - self._claims.occupied:
            timeout = _AHEAD_WAIT
        self._admit(self._queue.claim_wait(self._worker_id, limit, timeout=timeout, stop=stop))

    def _admit(self, handles: list[JobHandle]) -> None:
        try:
            self._grow(len(handles))
        finally:
            self._claims.admit(handles)
        self._careful = not handles or any(map(_may_be_dangerous, handles))
        paused, self._pausing = self._pausing, not handles
        if paused or not handles:  # the last before a pause may end in it
            self._measure_anew()

    def _alive(self) -> None:
        self._status.alive(_PART)
        self._muster()  # while nothing comes, this is all that happens

    def _room(self) -> int:
        """Return how many jobs to claim now; 0: wait."""
        claims = self._claims
        ahead = 0 if self._careful else self._ahead()
        most = self._concurrency + ahead
        if claims.unsettled > 2 * most:
            return 0  # the database does not keep up
        free = most - claims.occupied
        return round_down(free) if free > ahead // 2 else 0

    def _grow(self, more: int) -> None:
        """Start handler threads for what has none, and for so many *more* claims."""
        # Where not even the first could be started, it is there before anything is claimed.
        wanted = min(max(self._claims.occupied + more, self._unmanned), self._concurrency)
        try:
            self._crew.grow(wanted, self._start_handler)
        except BaseException:
            # Another process may be able to run what nobody here begins.
            self._unmanned = not self._crew
            self._claims.recall(0.0 if self._unmanned else _RECALL_AFTER, len(self._crew))
            raise
        self._unmanned = False

    def _start_handler(self, part: str, seat: Seat) -> threading.Thread:
        return self._spawn(part, partial(self._handle, part, seat))

    def _muster(self) -> None:
        """End what threads have left that died, now and then; others take their places.

        Hardly anything makes one die: an exception that is set from outside just when one that
        came before has been caught.
        """
        now = time.monotonic()
        if now < self._muster_at:
            return
        self._muster_at = now + _MUSTER_EVERY
        for place, thread in self._crew.dead():
            self._claims.leave(place.seat)
            self._status.over(place.part)
            self._forget(thread)
            self._crew.strike_off(place)

    def _handle(self, part: str, seat: Seat) -> None:
        """Work on one claim after the other."""
        self._status.over(part)  # whatever ended it the last time
        self._claims.leave(seat)  # what that has left behind
        while (held := self._claims.take(seat)) is not None:
            try:
                seat.outcome = self._attempt(held.handle)
                self._tell(held.handle, seat.outcome)
            finally:
                inherited = self.inherited  # the handler may have forked
                if not inherited:
                    self._claims.leave(seat)
            if inherited:
                return

    def _settle(self) -> None:
        """Write outcomes until everything is over."""
        self._until_dismissed(self._settlement.turn)
        # A statement that took long may have kept it from what came meanwhile.
        self._settlement.finish()

    def _until_dismissed(self, turn: Callable[[], None]) -> None:
        while not self._dismissed:
            turn()

    def _finish(self) -> None:
        """See to the end of what is in hand."""
        claims = self._claims
        claims.close()
        if self._time_left() > 0:
            claims.settler.unpark()
        while claims.in_hand and (left := self._time_left()) > 0:
            claims.claimer.park(left)
        if claims.in_hand:
            self._cut_short = claims.give_up() > 0 or self._cut_short
            claims.settler.unpark()
            while claims.in_hand and (left := self._time_left() + _RELEASE_TIME) > 0:
                claims.claimer.park(left)
        self._dismiss()

    def _dismiss(self) -> None:
        """Let those go that keep and settle claims."""
        self._dismissed = True
        self._claims.settler.unpark()
        self._claims.heart.unpark()


def _may_be_dangerous(handle: JobHandle) -> bool:
    """Return whether a job should not be claimed together with others that are not begun.

    One that was tried before may be what ended its worker's process, and one on its last
    attempt would become a dead letter, unbegun, with a process that another one ends.
    """
    return handle.attempt > 1 or handle.attempt >= handle.max_attempts


def round_down(count: int) -> int:
    """Return *count*, above 16 rounded down to two binary digits: 16, 24, 32, 48, 64, ...

    An engine can keep a plan for each of a few numbers, not for all of them. The rest is
    claimed next.

    Args:
        count: At least 0.
    """
    if count <= _EXACT:
        return count
    shift = count.bit_length() - 2
    return count >> shift << shift
