"""Where the next claim may begin, while somebody's long transaction makes scans slow.

A transaction that holds a snapshot keeps the server from removing the index entries of
jobs that are long done. They pile up at the front of the claim's scan, and every claim
would walk over all of them. So when a full look has become slow, the following claims
begin behind the place that the last one reached, and the full look, which finds whatever
came in before that place (late commits, higher priorities, retries, lapsed claims), runs
for about a twentieth of the time. While full looks are quick every claim is one, and the
claim order is exact; while they are slow, a job that belongs before the place waits for
the next full look, two seconds at most; so does one of a lower priority, while nothing else is
due at the place's own. What this process itself enqueues, retries, releases
or requeues before the place is known at once.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

SHARE = 20
"""A full look may take one part in so many of the time."""

SLOW_LOOK = 0.002
"""A full look that takes longer on the server is slow, in seconds."""

SLOW_ROW = 0.00001
"""What each claimed row may add to that, in seconds."""

SLOW_LOOKS = 5
"""So many slow looks in a row mean that it is the scan, and not a busy machine."""

_LONGEST_TRUST = 2.0
"""A place is never trusted for longer, in seconds."""


@dataclass(frozen=True, slots=True)
class Place:
    """A place in the claim order of a queue.

    Attributes:
        priority: The priority level.
        run_at: When the job at this place was due.
        id: That job's id.
    """

    priority: int
    run_at: datetime
    id: int


@dataclass(slots=True)
class _Trust:
    place: Place
    until: float


class ClaimPlaces:
    """Remembers a place for each queue, while that pays.

    Shared by all threads of a store; each call is a single dict operation, so that no lock
    is needed, and a lost update only costs one full look.
    """

    def __init__(self) -> None:
        self._trusted: dict[str, _Trust] = {}
        self._slow: dict[str, int] = {}

    def begin(self, queue: str, now: float) -> Place | None:
        """Return the place behind which to begin, or ``None`` for a full look.

        Args:
            queue: The queue's name.
            now: The monotonic clock, in seconds.
        """
        trust = self._trusted.get(queue)
        return None if trust is None or now >= trust.until else trust.place

    def patience(self, queue: str, now: float) -> float:
        """Return in how many seconds the next full look is due."""
        trust = self._trusted.get(queue)
        return 0.0 if trust is None else max(trust.until - now, 0.0)

    def is_slow(self, queue: str) -> bool:
        """Return whether the last full look was slow: then only full looks may go on from it."""
        return queue in self._slow

    def is_quick(self, queue: str, took: float, rows: int) -> bool:
        """Return whether nothing is to be noted of a full look: as quick as those before it.

        Args:
            queue: The queue's name.
            took: How long it took on the server, in seconds.
            rows: How many jobs it claimed.
        """
        return took < _slow_from(rows) and queue not in self._slow and queue not in self._trusted

    def looked(self, queue: str, now: float, took: float, last: Place | None, rows: int) -> None:
        """Note a full look.

        Args:
            queue: The queue's name.
            now: The monotonic clock, in seconds.
            took: How long it took on the server, in seconds.
            last: The place of the last job that it claimed, if it claimed one.
            rows: How many it claimed.
        """
        former = self._trusted.pop(queue, None)
        if took < _slow_from(rows):
            self._slow.pop(queue, None)
            return
        self._slow[queue] = slow = self._slow.get(queue, 0) + 1
        place = former.place if last is None and former is not None else last
        if slow >= SLOW_LOOKS and place is not None:
            self._trusted[queue] = _Trust(place, now + min(took * SHARE, _LONGEST_TRUST))

    def reached(self, queue: str, place: Place) -> None:
        """Note that a claim which began at the remembered place has come to *place*."""
        trust = self._trusted.get(queue)
        if trust is not None:
            trust.place = place

    def stored(self, queue: str, priority: int, *, early: bool) -> None:
        """Note that this process stored a job that may belong before the place.

        Args:
            queue: The queue's name.
            priority: The job's priority.
            early: Whether its due time was given, and so may be long ago.
        """
        trust = self._trusted.get(queue)
        if trust is None:
            return
        level = trust.place.priority
        if priority > level or (early and priority == level):
            self.forget(queue)

    def forget(self, queue: str) -> None:
        """Have the next claim be a full look: this process put something back."""
        self._trusted.pop(queue, None)


def _slow_from(rows: int) -> float:
    """Return from how many seconds on a full look that claims so many rows is slow."""
    return SLOW_LOOK + rows * SLOW_ROW
