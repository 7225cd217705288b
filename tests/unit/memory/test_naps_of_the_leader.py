"""How long the memory engine's leader sleeps, as the clock hears it: it never spins."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import groupby

import pytest

from alkstore import StopToken
from alkstore._typing import override
from alkstore.memory import ManualClock, MemoryStore
from alkstore.memory.leader import TTL
from tests.support.waiting import wait_until

RENEWAL = 2.0
"""The contract: a lease is renewed, and what nobody was woken for noticed, every 2 s."""


class NotedNaps(ManualClock):
    """A clock that stands still, and knows for how long it was to be waited for."""

    def __init__(self) -> None:
        super().__init__()
        self.naps: list[float] = []

    @override
    def nap(self, length: float) -> float | None:
        """Note *length*; the time comes by a step only."""
        self.naps.append(length)
        return super().nap(length)

    def of_leader(self) -> list[float]:
        """Return the naps between turns, alike ones in a row as one.

        In each turn the clock is asked how long the lease holds, too.
        """
        return [nap for nap, _ in groupby(nap for nap in self.naps if nap != TTL)]


@pytest.fixture
def clock() -> NotedNaps:
    """A clock that is asked for naps."""
    return NotedNaps()


@contextmanager
def leading(store: MemoryStore) -> Iterator[None]:
    """Run a leader loop in a thread."""
    stop = StopToken()
    runner = threading.Thread(target=store.run_schedules, args=[stop], daemon=True)
    runner.start()
    yield
    stop.cancel()
    runner.join(30)
    assert not runner.is_alive()


def none_at_all(_: MemoryStore) -> None:
    """There is no schedule."""


def a_far_one(store: MemoryStore) -> None:
    """Its boundary is a day away."""
    store.schedule("far", "@every 1d", "q", 1)


def a_paused_one(store: MemoryStore) -> None:
    """Its boundary has passed since it was paused."""
    store.schedule("paused", "@every 10s", "q", 1)
    assert store.pause("paused")


def a_damaged_one(store: MemoryStore) -> None:
    """It was set aside when its boundary had come."""
    store.schedule("damaged", "@every 10s", "q", 1)
    store.data.schedules["damaged"].spec = "never"


@pytest.mark.parametrize("given", [none_at_all, a_far_one, a_paused_one, a_damaged_one])
def test_with_nothing_to_fire_it_sleeps_until_its_next_renewal(
    store: MemoryStore, clock: NotedNaps, given: Callable[[MemoryStore], None]
) -> None:
    given(store)
    clock.advance(60)
    with leading(store):
        wait_until(clock.of_leader)
        turns = len(clock.naps)
        clock.advance(1)
        wait_until(lambda: len(clock.naps) >= turns + 2)
    assert clock.of_leader() == [RENEWAL]
    assert store.queue("q").size() == 0


def test_a_boundary_before_that_is_slept_for(store: MemoryStore, clock: NotedNaps) -> None:
    store.schedule("soon", "@every 1s", "q", 1)
    with leading(store):
        wait_until(clock.of_leader)
        clock.advance(0.25)
        wait_until(lambda: len(clock.of_leader()) == 2)
    assert clock.of_leader() == [1.0, 0.75]
