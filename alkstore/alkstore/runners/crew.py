"""The crew: the handler threads of a pool."""

from __future__ import annotations

import threading
from collections.abc import Callable

from alkstore.runners.claims import Seat


class Place:
    """The place of a handler thread in the crew, for one after the other.

    Attributes:
        part: What its thread is called.
        seat: Where that works.
        thread: The thread, or ``None`` when there is none (any more).
    """

    __slots__ = ("part", "seat", "thread")

    def __init__(self, part: str) -> None:
        self.part = part
        self.seat = Seat()
        self.thread: threading.Thread | None = None


class Crew:
    """Handler threads, started when they are needed."""

    def __init__(self) -> None:
        self._places: list[Place] = []
        self._manned = 0

    def __len__(self) -> int:
        """Return how many there are, those that died and were not struck off included."""
        return self._manned

    def threads(self) -> list[threading.Thread]:
        """Return them."""
        return [place.thread for place in self._places if place.thread is not None]

    def grow(self, wanted: int, start: Callable[[str, Seat], threading.Thread]) -> None:
        """Have *wanted* of them at least.

        Args:
            wanted: How many.
            start: Starts a thread, of this part and at this seat. It is not kept: a pool that
                holds itself would be gone only when the collector finds it.

        Raises:
            RuntimeError: No thread can be started.
        """
        while self._manned < wanted:
            if self._manned == len(self._places):
                self._places.append(Place(f"handler {len(self._places) + 1}"))
            place = next(one for one in self._places if one.thread is None)
            place.seat = Seat()
            place.thread = start(place.part, place.seat)
            self._manned += 1

    def dead(self) -> list[tuple[Place, threading.Thread]]:
        """Return the threads that have died, and where they have their places."""
        return [
            (place, place.thread)
            for place in self._places
            if place.thread is not None and not place.thread.is_alive()
        ]

    def strike_off(self, place: Place) -> None:
        """Have *place* for another thread, as nothing is left there of the one that died."""
        place.thread = None
        self._manned = len(self.threads())
