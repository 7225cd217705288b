"""Heartbeats: what is in hand stays in hand."""

from __future__ import annotations

import logging
import math
import time

from alkstore.errors import StoreClosed
from alkstore.runners.claims import Claims, Held, beat_interval
from alkstore.runners.pause import pause
from alkstore.runners.status import Status
from alkstore.traits import Queue

_logger = logging.getLogger(__name__)

_PART = "heartbeats"


class Heartbeats:
    """Extends all claims in hand, in one statement, before the first of them needs it.

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

    def turn(self) -> None:
        """Sleep until a beat is due or something new came, and beat if one is due."""
        claims = self._claims
        # Nothing that is admitted while this looks around may be missed.
        claims.beat_at = math.inf
        due = self._due()
        if due is not None and due <= time.monotonic():
            self._beat()
            return
        if due is None and self._failures:
            self._failures = 0
            self._not_before = 0.0
            self._status.over(_PART)
        claims.beat_at = math.inf if due is None else due
        claims.heart.park(None if due is None else max(due - time.monotonic(), 0.0))

    def _due(self) -> float | None:
        times = [
            held.since + beat_interval(held.handle.visibility_timeout)
            for held in self._claims.all()
            if _needs_beat(held)
        ]
        return max(min(times), self._not_before) if times else None

    def _beat(self) -> None:
        in_hand = [held for held in self._claims.all() if _needs_beat(held)]
        sent_at = time.monotonic()
        try:
            self._queue.heartbeat_many([held.handle for held in in_hand])
        except StoreClosed:
            raise
        except Exception as error:  # noqa: BLE001 - the next beat may get through
            self._failures = self._status.failed(_PART, error)
            self._not_before = time.monotonic() + self._rest(in_hand)
            return
        self._failures = 0
        self._not_before = 0.0
        self._status.good(_PART)
        for held in in_hand:
            if not held.handle.lost:
                held.since = sent_at
            elif held.stage != "ended":
                _logger.warning("the claim of job %d is lost", held.handle.id)

    def _rest(self, in_hand: list[Held]) -> float:
        """Return how soon to beat again after a failure: well before the claims lapse."""
        shortest = min(held.handle.visibility_timeout for held in in_hand)
        return min(pause(self._failures), beat_interval(shortest) / 2)


def _needs_beat(held: Held) -> bool:
    handle = held.handle
    return not (held.given_up or handle.lost or handle.settled)
