"""A slice proves the lease inside its transaction, and ends in time (section 7)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from alkstore.errors import DatabaseError
from alkstore.names import SCHEDULER_LOCK
from alkstore_postgres.lock.leases import Lease
from alkstore_postgres.scheduler.tick import LeaseNotProven, Ticker
from alkstore_postgres.store import PostgresStore
from tests.support.schedules import ScheduleTable


def test_no_slice_fires_without_the_lease_that_it_was_told_to_prove(
    store: PostgresStore, table: ScheduleTable, ticker: Ticker
) -> None:
    store.schedule("s", "@every 1h", "q", 1)
    table.shift("s", -1)
    leases = store._parts.leases
    lease = leases.acquire(SCHEDULER_LOCK, "me", 10.0)
    assert isinstance(lease, Lease)
    for stranger in (
        Lease(SCHEDULER_LOCK, "other", lease.token),
        Lease(SCHEDULER_LOCK, "me", lease.token + 1),
    ):
        with pytest.raises(LeaseNotProven):
            ticker.tick(stranger)
    table.run("UPDATE {locks} SET expires_at = now() - interval '1 ms'")
    with pytest.raises(LeaseNotProven):
        ticker.tick(lease)
    assert table.jobs() == 0
    assert leases.renew(lease, 10.0)
    assert ticker.tick(lease).fired == 1


def test_the_lease_cannot_be_taken_while_a_slice_is_under_way(
    store: PostgresStore,
    table: ScheduleTable,
    ticker: Ticker,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Field case B120: even when it lapses meanwhile."""
    store.schedule("s", "@every 1h", "q", 1)
    table.shift("s", -1)
    leases = store._parts.leases
    lease = leases.acquire(SCHEDULER_LOCK, "me", 30.0)
    assert isinstance(lease, Lease)
    answers = []
    finish = Ticker._finish

    def finishing(self: Ticker, *args: Any, **options: Any) -> Any:
        outlook = finish(self, *args, **options)
        table.run("UPDATE {locks} SET expires_at = now() - interval '1 ms'")
        answers.append(leases.acquire(SCHEDULER_LOCK, "other", 10.0))
        return outlook

    monkeypatch.setattr(Ticker, "_finish", finishing)
    assert ticker.tick(lease).fired == 1
    assert isinstance(answers[0], float)
    assert isinstance(leases.acquire(SCHEDULER_LOCK, "other", 10.0), Lease)


def test_the_limits_of_a_slice_do_not_outlive_it(
    open_store: Callable[..., PostgresStore], table: ScheduleTable
) -> None:
    parts = open_store(max_size=1)._parts
    Ticker(parts.database, parts.leases, parts.sender.channel, ttl=10.0).tick(None)
    for setting in ("statement_timeout", "idle_in_transaction_session_timeout"):
        shown = parts.database.fetch_value(f"SHOW {setting}".encode())
        assert shown == "0"


def test_a_frozen_ticker_is_ended_by_the_server_and_nothing_of_it_stays(
    open_store: Callable[..., PostgresStore],
    store: PostgresStore,
    table: ScheduleTable,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    store.schedule("s", "@every 1h", "q", 1)
    table.shift("s", -1)
    parts = open_store()._parts
    frozen = Ticker(parts.database, parts.leases, parts.sender.channel, ttl=0.4)
    finish = Ticker._finish

    def freezing(self: Ticker, *args: Any, **options: Any) -> Any:
        outlook = finish(self, *args, **options)
        if self is frozen:
            while table.run(
                "SELECT 1 FROM pg_stat_activity WHERE state = 'idle in transaction'"
                " AND position(%s in query) > 0",
                table._schema,
            ).fetchone():
                pass
        return outlook

    monkeypatch.setattr(Ticker, "_finish", freezing)
    with pytest.raises(DatabaseError):
        frozen.tick(None)
    assert table.jobs() == 0
    rogue = store._parts
    assert (
        Ticker(rogue.database, rogue.leases, rogue.sender.channel, ttl=10.0).tick(None).fired == 1
    )
