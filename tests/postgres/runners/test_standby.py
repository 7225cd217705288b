"""Schedulers that are not the leader stand by."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from alkstore.names import SCHEDULER_LOCK
from alkstore_postgres import PostgresStore
from alkstore_postgres.lock.leases import Lease, Leases
from alkstore_postgres.scheduler.pacing import TURNS_PER_SECOND
from tests.support.timing import in_time
from tests.support.waiting import rest, wait_until


def test_a_standby_takes_over_at_once_when_the_leader_stops(
    open_store: Callable[..., PostgresStore],
) -> None:
    """Field case B22."""
    leaders = [open_store().start_scheduler()]
    wait_until(lambda: leaders[0].state == "leading")

    def hand_over() -> float:
        standby = open_store().start_scheduler()
        wait_until(lambda: standby.state == "standby")
        assert standby.health().healthy
        rest(0.2)  # let it park
        assert leaders.pop().stop(20)
        began = time.monotonic()
        leaders.append(standby)
        wait_until(lambda: standby.state == "leading", 20)
        return time.monotonic() - began

    in_time(hand_over, 1)


def test_a_standby_that_stops_leaves_the_leader_alone(
    open_store: Callable[..., PostgresStore],
) -> None:
    """Field case B119."""
    leader = open_store().start_scheduler()
    wait_until(lambda: leader.state == "leading")
    store = open_store()
    for _ in range(20):
        standby = store.start_scheduler()
        wait_until(lambda: standby.state == "standby")  # noqa: B023 - called here only
        assert standby.stop(5)
    assert leader.state == "leading"
    assert leader.last_error is None


def test_a_storm_of_changes_does_not_make_a_standby_ask_without_a_pause(
    open_store: Callable[..., PostgresStore], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each change of a schedule wakes whoever leads; a standby hears that as well."""
    leader = open_store().start_scheduler()
    wait_until(lambda: leader.state == "leading")
    store = open_store()
    standby = store.start_scheduler()
    wait_until(lambda: standby.state == "standby")
    asked: list[str] = []
    acquire = Leases.acquire

    def counted(self: Leases, name: str, owner: str, ttl: float) -> Lease | float:
        asked.append(owner)
        return acquire(self, name, owner, ttl)

    monkeypatch.setattr(Leases, "acquire", counted)
    began = time.monotonic()
    while time.monotonic() - began < 2:
        store._parts.hub.wake_here(SCHEDULER_LOCK)
        time.sleep(0.001)
    took = time.monotonic() - began
    assert 5 < len(asked) <= 6 + TURNS_PER_SECOND * took
    assert leader.stop(5)
    wait_until(lambda: standby.state == "leading", 5)
