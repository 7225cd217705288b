"""The claims that a runner has in hand: which wait, run, or are to be settled."""

from __future__ import annotations

import math
import queue
import threading
import time
from collections import deque
from collections.abc import Callable

from alkstore.runners.attempt import RELEASE, Outcome
from alkstore.runners.errand import Errand
from alkstore.runners.held import Held, beat_interval
from alkstore.stop_token import Parker
from alkstore.traits import JobHandle

_LOST_AFTER = 3.0
"""A claim that no handler has begun, and that lies in no queue for one, was lost after so many
seconds: handlers may hold the interpreter for some of them."""

_LOOK_TIME = 0.05
"""How long a handler waits for the heartbeats to know of its claim, in seconds."""


class Seat:
    """The place of a handler thread, which stays when something strikes the thread.

    Attributes:
        held: The claim that it has in its hand, or works on.
        outcome: What is to become of that.
        errand: What it does for the claimer.
    """

    __slots__ = ("errand", "held", "outcome")

    def __init__(self) -> None:
        self.held: Held | None = None
        self.outcome = RELEASE
        self.errand: Errand | None = None


class Claims:
    """Keeps the books of a runner's claims; knows no database.

    A claim is admitted, taken by a handler thread, ended by it, settled and forgotten.
    Four kinds of threads meet here, and each sleeps on a place of its own: handler
    threads in `take`, the others on `claimer`, `settler` and `heart`.

    An application may set an exception in one of its handlers' threads from outside, as time
    limits do, and it may strike late: anywhere in here. So every step of a handler thread can
    be done again, and is: see `leave`.

    Attributes:
        beat_at: When the heartbeats look at the books next, as `time.monotonic` tells;
            `admit` wakes them when that is too late.
        looked: Set when the heartbeats know of all claims; handlers wait for that, since
            once they run they may keep every other thread waiting.
    """

    def __init__(self) -> None:
        self.claimer = Parker()
        self.settler = Parker()
        self.heart = Parker()
        self.beat_at = -math.inf
        self.looked = threading.Event()
        self.looked.set()
        self._lock = threading.Lock()
        self._ready: queue.SimpleQueue[Held | Errand | None] = queue.SimpleQueue()
        self._held: dict[int, Held] = {}
        self._unbegun: dict[int, Held] = {}
        self._running: dict[int, Held] = {}
        self._ended: deque[Held] = deque()
        self._finished = 0
        self._closed = False

    # -- the books

    @property
    def unstarted(self) -> int:
        """How many claims wait for a handler thread."""
        return len(self._unbegun)

    @property
    def running(self) -> int:
        """How many handlers run, those that lost their claim included."""
        return len(self._running)

    @property
    def occupied(self) -> int:
        """How many handler threads run, or have a claim waiting for them."""
        with self._lock:
            return len(self._unbegun) + len(self._running)

    @property
    def finished(self) -> int:
        """How many handlers have ended so far."""
        return self._finished

    @property
    def in_hand(self) -> int:
        """How many claims are in hand, the ended ones that are not settled included."""
        return len(self._held)

    @property
    def unsettled(self) -> int:
        """How many claims have ended and are not settled."""
        return len(self._ended)

    def all(self) -> list[Held]:
        """Return every claim in hand."""
        with self._lock:
            return list(self._held.values())

    # -- the claimer

    def admit(self, handles: list[JobHandle]) -> None:
        """Take claims into the books; after `close` they are released at once."""
        now = time.monotonic()
        admitted = [Held(handle, now) for handle in handles]
        intervals = [beat_interval(handle.visibility_timeout) for handle in handles]
        books = {id(held): held for held in admitted}
        with self._lock:
            self._unbegun.update(books)  # first: what is in no queue is found there
            self._held.update(books)
            if intervals and self.beat_at > now + min(intervals):
                self.looked.clear()
                self.heart.unpark()
            for held in admitted:
                if self._closed:
                    self._end(held, RELEASE)
                else:
                    self._ready.put(held)
        if self._closed:
            self.settler.unpark()

    def entrust(self, work: Callable[[], None]) -> None:
        """Have an idle handler thread do *work*, and wait for it; raises what that raises.

        Where none comes for it soon, it is done here.
        """
        errand = Errand(work)
        self._ready.put(errand)
        errand.wait()

    def recall(self, waited: float, crew: int) -> None:
        """Release claims that have been waiting for a handler longer than *waited* seconds.

        While one of the handler threads is free they are about to be taken: it waits for the
        interpreter. Then only those go back that have been in no queue for long: something struck
        a thread that had just been handed one.

        Args:
            waited: Seconds.
            crew: How many handler threads there are.
        """
        now = time.monotonic()
        with self._lock:
            queued = self._drain()
            one_is_free = len(self._running) < crew
            spared = {id(held) for held in queued} if one_is_free else set()
            limit = now - (max(waited, _LOST_AFTER) if one_is_free else waited)
            for held in list(self._unbegun.values()):
                if held.admitted <= limit and id(held) not in spared:
                    self._end(held, RELEASE)
            for held in queued:
                if held.stage == "ready":
                    self._ready.put(held)
        self.settler.unpark()

    # -- the handler threads

    def take(self, seat: Seat) -> Held | None:
        """Wait for a claim to work on; ``None``: there will be none any more."""
        while (held := self._ready.get()) is not None:
            if isinstance(held, Errand):
                seat.errand = held
                held.run()
                seat.errand = None
                continue
            self.looked.wait(_LOOK_TIME)
            with self._lock:
                if self._begin(held, seat):
                    return held
            self.settler.unpark()
        self._ready.put(None)  # for the next thread
        return None

    def leave(self, seat: Seat) -> None:
        """Note that the handler of *seat* has ended, or that what is left there has no handler."""
        if seat.errand is not None:
            seat.errand.give_up()
            seat.errand = None
        held = seat.held
        if held is None:
            return
        with self._lock:
            if held.stage != "ended":  # given up
                self._end(held, seat.outcome)
            if self._running.pop(id(held), None) is not None:
                self._finished += 1
        self.settler.unpark()
        self.claimer.unpark()
        seat.held, seat.outcome = None, RELEASE

    # -- the settler

    def due(self, limit: int, *, untried: bool = False) -> list[Held]:
        """Remove and return up to *limit* ended claims whose time to be settled has come.

        Args:
            limit: How many at most.
            untried: Only those that nobody has tried to settle.
        """
        now = time.monotonic()
        with self._lock:
            chosen: list[Held] = []
            for _ in range(len(self._ended)):
                if len(chosen) == limit:
                    break
                held = self._ended.popleft()
                if held.try_at <= now and not (untried and held.failures):
                    chosen.append(held)
                else:
                    self._ended.append(held)
        return chosen

    def next_try(self) -> float | None:
        """Return in how many seconds a claim is to be settled again, or ``None``."""
        with self._lock:
            times = [held.try_at for held in self._ended]
        return max(min(times) - time.monotonic(), 0.0) if times else None

    def postpone(self, held: Held, seconds: float) -> None:
        """Try to settle *held* again in so many *seconds*."""
        held.failures += 1
        held.try_at = time.monotonic() + seconds
        with self._lock:
            self._ended.append(held)

    def leave_for_later(self, rest: list[Held]) -> None:
        """Return those of what `due` gave that nobody got to, as they are."""
        if rest:
            with self._lock:
                self._ended.extend(rest)

    def put_back(self, batch: list[Held]) -> None:
        """Return what `due` gave and nobody got to; what was dealt with is left out."""
        with self._lock:
            for held in batch:
                if id(held) in self._held and held not in self._ended:
                    self._ended.append(held)

    def forget(self, settled: list[Held]) -> None:
        """Strike claims from the books."""
        with self._lock:
            for held in settled:
                self._held.pop(id(held), None)
        self.claimer.unpark()

    # -- the end

    def close(self) -> None:
        """Begin nothing more: release what waits, and let idle handler threads go.

        The settler is not woken: what is to be released may not be all yet.
        """
        with self._lock:
            self._drain()
            for held in list(self._unbegun.values()):
                self._end(held, RELEASE)
            if not self._closed:
                self._closed = True
                self._ready.put(None)

    def give_up(self) -> int:
        """Release what has not ended; return from how many running handlers it was taken.

        The settler is not woken here either.
        """
        running = 0
        with self._lock:
            for held in self._held.values():
                if held.stage == "running":
                    held.given_up = True
                    running += 1
                    self._end(held, RELEASE)
        return running

    # -- inside the lock

    def _begin(self, held: Held, seat: Seat) -> bool:
        """Note that the handler of *seat* begins with *held*, unless the end came first."""
        if held.stage != "ready":
            return False
        seat.held = held
        self._running[id(held)] = held
        held.stage = "running"
        self._unbegun.pop(id(held), None)
        return True

    def _end(self, held: Held, outcome: Outcome) -> None:
        held.outcome = outcome
        self._ended.append(held)
        held.stage = "ended"
        self._unbegun.pop(id(held), None)

    def _drain(self) -> list[Held]:
        drained: list[Held] = []
        while True:
            try:
                held = self._ready.get_nowait()
            except queue.Empty:
                return drained
            if held is None:
                self._ready.put(None)
                return drained
            if isinstance(held, Held):  # whoever sent an errand does it himself
                drained.append(held)
