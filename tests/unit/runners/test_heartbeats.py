"""Heartbeats of a process whose interpreter is held: what one nap tells about the next beat."""

from __future__ import annotations

import threading
import time
from typing import Any

import pytest

from alkstore._typing import override
from alkstore.memory import MemoryStore
from alkstore.runners.claims import Claims
from alkstore.runners.heartbeats import Heartbeats
from alkstore.runners.held import beat_interval
from alkstore.runners.status import Status
from alkstore.stop_token import Parker
from tests.support.timing import in_time

VISIBILITY = 8.0
HELD_FOR = 1.5
"""For so many seconds nobody gets the interpreter once a nap is over."""


class LateParker(Parker):
    """Ends each nap late, as if somebody held the interpreter."""

    @override
    def park(self, timeout: float | None = None) -> bool:
        """Sleep for too long."""
        return super().park(None if timeout is None else timeout + HELD_FOR)


class Beats(list[tuple[float, float]]):
    """When each beat was sent, and for how long it held the claims at least."""


def beats_of_a_claim(monkeypatch: pytest.MonkeyPatch) -> Beats:
    """Return the beats of one claim that was admitted just now, counted from then."""
    store = MemoryStore()
    queue = store.queue("emails", visibility_timeout=VISIBILITY)
    queue.enqueue(1)
    claims = Claims()
    claims.heart = LateParker()
    beats = Beats()
    extend = type(queue).heartbeat_many

    def noted(of: Any, handles: Any, at_least: Any = None) -> int:
        beats.append((time.monotonic() - began, at_least))
        return extend(of, handles, at_least)

    monkeypatch.setattr(type(queue), "heartbeat_many", noted)
    heartbeats = Heartbeats(queue, claims, Status("worker emails"))
    over = threading.Event()

    def beat() -> None:
        while not over.is_set():
            heartbeats.turn()

    claims.admit(queue.claim("w"))
    began = time.monotonic()
    thread = threading.Thread(target=beat, daemon=True)
    thread.start()
    deadline = began + VISIBILITY
    while not beats and time.monotonic() < deadline:
        time.sleep(0.01)
    over.set()
    claims.heart.unpark()
    thread.join(10)
    store.close()
    return beats


def test_a_nap_that_ends_late_brings_the_first_beat_forward(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Field case B48: without it the beat would be as late as the whole sleep before it."""

    def first_beat() -> float:
        with monkeypatch.context() as patched:
            sent, at_least = beats_of_a_claim(patched)[0]
        assert at_least > VISIBILITY, "the next one may be as late"
        return sent

    in_time(first_beat, beat_interval(VISIBILITY) + HELD_FOR / 2)
