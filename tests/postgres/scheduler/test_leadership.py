"""Leadership is the lease: who holds it leads, who lost it fires nothing more (section 7)."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

import psycopg
import pytest

from alkstore import LeadershipLost
from alkstore.errors import DatabaseError
from alkstore.names import SCHEDULER_LOCK
from alkstore_postgres.lock.leases import Lease, Leases
from alkstore_postgres.store import PostgresStore
from tests.support.leading import Leading, owner_of
from tests.support.schedules import ScheduleTable
from tests.support.timing import in_time
from tests.support.waiting import wait_until


def test_leadership_is_refused_at_once_while_another_holds_it(
    open_store: Callable[..., PostgresStore], store: PostgresStore, table: ScheduleTable
) -> None:
    """Field case B119: whoever is refused leaves the lease as it is, fifty times."""
    lease = store._parts.leases.acquire(SCHEDULER_LOCK, "another", 600.0)
    assert isinstance(lease, Lease)
    before = table.run("SELECT xmin, * FROM {locks}").fetchall()
    other = open_store()

    def refuse() -> float:
        began = time.monotonic()
        error = Leading(other).start().outcome()
        took = time.monotonic() - began
        assert isinstance(error, LeadershipLost)
        assert error.retry_after is not None
        assert 300 < error.retry_after <= 600
        return took

    for _ in range(50):
        in_time(refuse, 1)
    assert table.run("SELECT xmin, * FROM {locks}").fetchall() == before


def test_two_loops_of_one_process_have_different_owners(
    open_store: Callable[..., PostgresStore], store: PostgresStore, table: ScheduleTable
) -> None:
    """Field case B02: neither host nor pid makes an owner."""
    owners = set()
    for one in (store, open_store(), store):
        with Leading(one):
            owners.add(owner_of(table))
    assert len(owners) == 3


def test_a_lost_lease_ends_the_loop_before_any_tick(
    store: PostgresStore, table: ScheduleTable
) -> None:
    """Field case B01: another took it while the leader was asleep."""
    store.schedule("s", "@every 1h", "q", 1)
    leading = Leading(store, ttl=1.0).lead()
    table.run(
        "UPDATE {locks} SET owner = 'another', token = token + 1,"
        " expires_at = now() + interval '40 s'"
    )
    row = table.run("SELECT xmin, * FROM {locks}").fetchall()
    table.shift("s", -1)
    error = leading.outcome()
    assert isinstance(error, LeadershipLost)
    assert error.retry_after is not None
    assert 30 < error.retry_after <= 40
    assert table.jobs() == 0
    assert table.run("SELECT xmin, * FROM {locks}").fetchall() == row, "field case B04"


def test_a_deleted_lease_ends_the_loop_and_can_be_taken_again(
    store: PostgresStore, table: ScheduleTable
) -> None:
    """Field case B06."""
    leading = Leading(store, ttl=1.0).lead()
    table.run("DELETE FROM {locks}")
    error = leading.outcome()
    assert isinstance(error, LeadershipLost)
    assert error.retry_after == 0.0
    with Leading(store, ttl=1.0):
        assert owner_of(table) is not None


@pytest.mark.parametrize("end", ["'infinity'", "NULL", "now() - interval '1 s'"])
def test_a_marker_without_an_end_keeps_nobody_from_leading(
    store: PostgresStore, table: ScheduleTable, end: str
) -> None:
    """Field case B122."""
    assert isinstance(store._parts.leases.acquire(SCHEDULER_LOCK, "dead", 30.0), Lease)
    table.run(f"UPDATE {{locks}} SET expires_at = {end}")
    with Leading(store):
        assert owner_of(table) != "dead"


def test_a_lease_that_lapsed_but_that_nobody_took_is_kept(
    store: PostgresStore, table: ScheduleTable
) -> None:
    store.schedule("s", "@every 1h", "q", 1)
    with Leading(store, ttl=1.0) as leading:
        table.run("UPDATE {locks} SET expires_at = now() - interval '1 h'")
        table.shift("s", -1)
        wait_until(lambda: table.jobs() == 1)
        assert leading.running


def test_failing_renewals_never_count_as_leading(
    store: PostgresStore, table: ScheduleTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Field case B01: an error means "not leader", until a renewal succeeds."""
    store.schedule("s", "@every 1h", "q", 1)
    renew, failing, calls = Leases.renew_and_read, threading.Event(), [0]

    def renewing(self: Leases, *args: Any) -> Any:
        if failing.is_set():
            calls[0] += 1
            message = "injected"
            raise psycopg.OperationalError(message)
        return renew(self, *args)

    monkeypatch.setattr(Leases, "renew_and_read", renewing)
    with Leading(store, ttl=1.0) as leading:
        failing.set()
        wait_until(lambda: calls[0] >= 1)  # a turn whose renewal went well may fire yet
        table.shift("s", -1)
        wait_until(lambda: calls[0] >= 4)
        assert table.jobs() == 0
        failing.clear()
        wait_until(lambda: table.jobs() == 1)
        assert leading.running


def test_nothing_fires_until_the_lease_is_really_held(
    store: PostgresStore, table: ScheduleTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Field case B03: taking the lock fails at first."""
    store.schedule("s", "@every 1h", "q", 1)
    table.shift("s", -1)
    acquire, calls = Leases.acquire, [0]

    def acquiring(self: Leases, *args: Any) -> Any:
        calls[0] += 1
        if calls[0] <= 3:
            assert table.jobs() == 0
            message = "injected"
            raise DatabaseError(message, retryable=True)
        return acquire(self, *args)

    monkeypatch.setattr(Leases, "acquire", acquiring)
    with Leading(store):
        wait_until(lambda: table.jobs() == 1)
    assert calls[0] == 4
