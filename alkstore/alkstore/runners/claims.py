"""The claims that a runner has in hand: which wait, run, or are to be settled."""

from __future__ import annotations

import math
import threading
import time
from collections import deque
from collections.abc import Callable
from queue import Empty, SimpleQueue

from alkstore.runners.attempt import RELEASE, Outcome
from alkstore.runners.errand import Errand
from alkstore.runners.held import Held, beat_interval
from alkstore.stop_token import Parker
from alkstore.traits import JobHandle

_LOOK_TIME = 0.05
"""How long a handler waits for the heartbeats to know of its claim, in seconds."""


class Claims:
    """Keeps the books of a runner's claims; knows no database.

    A claim is admitted, taken by a handler thread, ended by it, settled and forgotten.
    Four kinds of threads meet here, and each sleeps on a place of its own: handler
    threads in `take`, the others on `claimer`, `settler` and `heart`.

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
        self._ready: SimpleQueue[Held | Errand | None] = SimpleQueue()
        self._held: dict[int, Held] = {}
        self._ended: deque[Held] = deque()
        self._unstarted = 0
        self._running = 0
        self._finished = 0
        self._closed = False

    # -- the books

    @property
    def unstarted(self) -> int:
        """How many claims wait for a handler thread."""
        return self._unstarted

    @property
    def running(self) -> int:
        """How many handlers run, those that lost their claim included."""
        return self._running

    @property
    def occupied(self) -> int:
        """How many handler threads run, or have a claim waiting for them."""
        with self._lock:
            return self._unstarted + self._running

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
        with self._lock:
            self._held.update((id(held), held) for held in admitted)
            if intervals and self.beat_at > now + min(intervals):
                self.looked.clear()
                self.heart.unpark()
            for held in admitted:
                if self._closed:
                    self._end(held, RELEASE)
                else:
                    self._unstarted += 1
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

    def recall(self, waited: float) -> None:
        """Release claims that have been waiting for a handler longer than *waited* seconds.

        Also one that a handler thread was handed and lost, since something struck it just then.
        """
        if not self._unstarted:
            return
        limit = time.monotonic() - waited
        with self._lock:
            for held in self._held.values():
                if held.stage == "ready" and held.admitted <= limit:
                    self._unstarted -= 1
                    self._end(held, RELEASE)
            for held in self._drain():
                if held.stage == "ready":
                    self._ready.put(held)
        self.settler.unpark()

    # -- the handler threads

    def take(self) -> Held | None:
        """Wait for a claim to work on; ``None``: there will be none any more."""
        while (held := self._ready.get()) is not None:
            if isinstance(held, Errand):
                held.run()
                continue
            self.looked.wait(_LOOK_TIME)
            with self._lock:
                if self._begin(held):
                    return held
            self.settler.unpark()
        self._ready.put(None)  # for the next thread
        return None

    def end(self, held: Held, outcome: Outcome) -> None:
        """Note that the handler of *held* has ended."""
        with self._lock:
            self._running -= 1
            self._finished += 1
            if not held.given_up:
                self._end(held, outcome)
        self.settler.unpark()
        self.claimer.unpark()

    # -- the settler

    def due(self, limit: int) -> list[Held]:
        """Remove and return up to *limit* ended claims whose time to be settled has come."""
        now = time.monotonic()
        with self._lock:
            chosen: list[Held] = []
            for _ in range(len(self._ended)):
                if len(chosen) == limit:
                    break
                held = self._ended.popleft()
                if held.try_at <= now:
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
        """Begin nothing more: release what waits, and let idle handler threads go."""
        with self._lock:
            for held in self._drain():
                self._unstarted -= 1
                self._end(held, RELEASE)
            if not self._closed:
                self._closed = True
                self._ready.put(None)
        self.settler.unpark()

    def give_up(self) -> int:
        """Release what has not ended; return from how many running handlers it was taken."""
        running = 0
        with self._lock:
            for held in self._held.values():
                if held.stage == "running":
                    held.given_up = True
                    running += 1
                    self._end(held, RELEASE)
                elif held.stage == "ready":  # a handler thread has it, and has not begun
                    self._unstarted -= 1
                    self._end(held, RELEASE)
        self.settler.unpark()
        return running

    # -- inside the lock

    def _begin(self, held: Held) -> bool:
        """Note that a handler begins with *held*, unless the end came first."""
        if held.stage != "ready":
            return False
        self._unstarted -= 1
        if self._closed:
            self._end(held, RELEASE)
            return False
        self._running += 1
        held.stage = "running"
        return True

    def _end(self, held: Held, outcome: Outcome) -> None:
        held.stage = "ended"
        held.outcome = outcome
        self._ended.append(held)

    def _drain(self) -> list[Held]:
        drained: list[Held] = []
        while True:
            try:
                held = self._ready.get_nowait()
            except Empty:
                return drained
            if held is None:
                self._ready.put(None)
                return drained
            if isinstance(held, Held):  # whoever sent an errand does it himself
                drained.append(held)
