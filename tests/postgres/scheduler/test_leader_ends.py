"""The end of the leader loop: soon, and the lease is given back (section 7)."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from alkstore import SchemaError, StopToken, StoreClosed
from alkstore_postgres.scheduler import attendant
from alkstore_postgres.store import PostgresStore
from tests.support.leading import QUICK, SLACK, Leading, owner_of
from tests.support.schedules import ScheduleTable
from tests.support.timing import in_time
from tests.support.waiting import wait_until


def test_a_stop_ends_the_sleep_at_once_and_gives_the_lease_back(
    store: PostgresStore, table: ScheduleTable
) -> None:
    """Field case B22."""
    store.schedule("s", "@every 36500d", "q", 1)
    for _ in range(5):
        in_time(lambda: end_one(store, table), QUICK + SLACK)


def end_one(store: PostgresStore, table: ScheduleTable) -> float:
    """Return how long its end took; the lease may be given back just after its caller went."""
    leading = Leading(store).lead()
    assert owner_of(table) is not None
    took = leading.end()
    assert leading.error is None
    wait_until(lambda: owner_of(table) is None, 2)
    return took


def test_a_stop_before_the_start_leads_nothing(store: PostgresStore, table: ScheduleTable) -> None:
    leading = Leading(store)
    leading.stop.cancel()
    assert leading.start().outcome() is None
    assert owner_of(table) is None


def test_a_closed_store_ends_the_loop(open_store: Callable[..., PostgresStore]) -> None:
    other = open_store()
    leading = Leading(other).lead()
    other.close()
    assert isinstance(leading.outcome(), StoreClosed)


def test_a_schema_that_does_not_fit_ends_the_loop_and_frees_the_lease(
    store: PostgresStore, table: ScheduleTable
) -> None:
    leading = Leading(store, ttl=1.0).lead()
    table.run("ALTER TABLE {schedules} RENAME TO elsewhere")
    assert isinstance(leading.outcome(), SchemaError)
    wait_until(lambda: owner_of(table) is None)


def test_an_interrupt_in_the_calling_thread_gives_the_lease_back(
    store: PostgresStore, table: ScheduleTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    parts = store._parts
    look = attendant.Attendant._look

    def interrupting(self: attendant.Attendant) -> None:
        look(self)
        if owner_of(table) is not None:
            raise KeyboardInterrupt

    monkeypatch.setattr(attendant.Attendant, "_look", interrupting)
    from alkstore_postgres.scheduler.leader import LeaderLoop

    with pytest.raises(KeyboardInterrupt):
        LeaderLoop(parts.database, parts.hub).run(StopToken())
    wait_until(lambda: owner_of(table) is None)
