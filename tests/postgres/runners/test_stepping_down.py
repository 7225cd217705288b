"""A leader whose ticks keep failing steps down, and leaves the lease to others for a TTL."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest

from alkstore.errors import DatabaseError
from alkstore.names import SCHEDULER_LOCK
from alkstore_postgres import PostgresStore
from alkstore_postgres.lock.leases import Lease, Leases
from alkstore_postgres.scheduler.leader import LeaderLoop
from alkstore_postgres.scheduler.tick import Ticker
from tests.support.waiting import wait_until

TTL = 1.0


def test_a_leader_that_stepped_down_does_not_ask_again_before_a_ttl_is_over(
    open_store: Callable[..., PostgresStore], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its own release is no reason to ask for the lease again; another one hears it."""
    asked: list[float] = []
    gave: list[float] = []
    acquire, release = Leases.acquire, Leases.release

    def acquiring(self: Leases, name: str, owner: str, ttl: float) -> Lease | float:
        asked.append(time.monotonic())
        return acquire(self, name, owner, ttl)

    def releasing(self: Leases, lease: Lease) -> bool:
        done = release(self, lease)
        gave.append(time.monotonic())
        return done

    def failing(*_values: Any, **_options: Any) -> None:
        raise DatabaseError("injected", sqlstate="XX000")

    monkeypatch.setattr(Leases, "acquire", acquiring)
    monkeypatch.setattr(Leases, "release", releasing)
    monkeypatch.setattr(Ticker, "slice", failing)
    defaults = {**(LeaderLoop.__init__.__kwdefaults__ or {}), "ttl": TTL}
    monkeypatch.setattr(LeaderLoop.__init__, "__kwdefaults__", defaults)
    store = open_store()
    heard: list[float] = []
    store._parts.hub.attach(SCHEDULER_LOCK, lambda _name: heard.append(time.monotonic()))
    assert store._parts.hub.settle(5)
    store.schedule("nightly", "@every 1s", "emails", None)
    runner = store.start_scheduler()
    states: set[str] = set()

    def has_asked_again() -> bool:
        if gave:
            states.add(runner.state)
        return len([at for at in asked if gave and at > gave[0]]) == 1

    wait_until(has_asked_again)
    # Its own failures made it wait, so it is not well for that; healthy() sees how long they last.
    assert states == {"backing-off"}
    assert asked[-1] - gave[0] > 0.9 * TTL
    assert any(gave[0] - 0.1 < at < asked[-1] for at in heard), "its release was there to be heard"
    assert runner.stop(5)
