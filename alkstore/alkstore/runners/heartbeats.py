"""Heartbeats: what is in hand stays in hand."""

from __future__ import annotations

import logging
import math
import time

from alkstore.errors import StoreClosed
from alkstore.runners.claims import Claims
from alkstore.runners.held import Held, beat_interval
from alkstore.runners.pause import pause
from alkstore.runners.say import say
from alkstore.runners.status import Status
from alkstore.traits import Queue

_logger = logging.getLogger(__name__)

_PART = "heartbeats"

_NAP_SHARE = 0.2
"""The sleep until a beat is cut into naps of this share of the time between two beats: the first
one that ends late tells that the interpreter is held, before the first beat comes too late."""

_LATENESS_FACTOR = 20.0
"""A claim is held for so many times what beats were late lately ..."""

_LONGEST_HOLD = 120.0
"""... but, for that reason, for no longer than this, in seconds."""


class Heartbeats:
    """Extends all claims in hand, in one statement, before the first of them needs it.

    A handler may hold the interpreter's lock for seconds, and a beat that needs the lock
    several times is late by several of them. So each nap and each beat measures how late it
    comes, and how long it takes; the next one starts earlier by that, and when it endangers the
    visibility timeout, the claims are held for longer: a process in trouble may be slow to
    give back its jobs, but it does not lose what it works on.

    Args:
        queue: Whose claims they are.
        claims: The books.
        status: What gets to know of good turns and failures.
    """

    def __init__(self, queue: Queue, claims: Claims, status: Status) -> None:
        self._queue = queue
        self._claims = claims
        self._status = status
        self._failures = 0
        self._not_before = 0.0
        self._late = 0.0
        self._interval = math.inf

    def turn(self) -> None:
        """Sleep until a beat is due or something new came, and beat if one is due."""
        claims = self._claims
        # Nothing that is admitted while this looks around may be missed.
        claims.beat_at = math.inf
        due = self._due()
        if due is not None and due <= time.monotonic():
            self._beat(due)
            return
        if due is None:
            due = self._next_look()
        claims.beat_at = due
        claims.looked.set()
        self._nap(due)

    def _nap(self, due: float) -> None:
        """Sleep, but not as far as *due* at once, and learn how late that ends."""
        heart = self._claims.heart
        if due == math.inf:
            heart.park(None)
            return
        now = time.monotonic()
        until = min(due, now + self._interval * _NAP_SHARE)
        if not heart.park(max(until - now, 0.0)):
            self._late = max(self._late, time.monotonic() - until)

    def _next_look(self) -> float:
        """Return when to look again with nothing in hand: it may be a moment between jobs."""
        self._failures = 0
        self._not_before = 0.0
        self._status.over(_PART)  # whatever failed, in a beat or outside
        interval, self._interval = self._interval, math.inf
        return time.monotonic() + interval

    def _due(self) -> float | None:
        in_hand = [held for held in self._claims.all() if _needs_beat(held)]
        if not in_hand:
            return None
        intervals = [beat_interval(held.handle.visibility_timeout) for held in in_hand]
        self._interval = min(intervals)
        due = min(
            held.since + max(interval - self._late, 0.0)
            for held, interval in zip(in_hand, intervals, strict=True)
        )
        return max(due, self._not_before)

    def _beat(self, due: float) -> None:
        in_hand = [held for held in self._claims.all() if _needs_beat(held)]
        sent_at = time.monotonic()
        late = max(sent_at - due, self._late)
        self._late = max(sent_at - due, self._late / 2)
        at_least = min(late * _LATENESS_FACTOR, _LONGEST_HOLD)
        try:
            self._queue.heartbeat_many([held.handle for held in in_hand], at_least)
        except StoreClosed:
            raise
        except Exception as error:  # noqa: BLE001 - the next beat may get through
            self._failures = self._status.failed(_PART, error)
            self._not_before = time.monotonic() + self._rest(in_hand)
            return
        self._failures = 0
        self._not_before = 0.0
        self._status.good(_PART)
        self._late = max(self._late, time.monotonic() - sent_at)
        for held in in_hand:
            if not held.handle.lost:
                held.since = sent_at
            elif held.stage != "ended":
                say(_logger, logging.WARNING, "the claim of job %d is lost", held.handle.id)

    def _rest(self, in_hand: list[Held]) -> float:
        """Return how soon to beat again after a failure: well before the claims lapse."""
        shortest = min(held.handle.visibility_timeout for held in in_hand)
        return min(pause(self._failures), beat_interval(shortest) / 2)


def _needs_beat(held: Held) -> bool:
    handle = held.handle
    return not (held.given_up or handle.lost or handle.settled)
