"""What costs a leader few turns: storms of wakes, rows that are held or damaged."""

from __future__ import annotations

import time
from typing import Any

import psycopg
import pytest

from alkstore.names import SCHEDULER_LOCK
from alkstore_postgres.lock.leases import Leases
from alkstore_postgres.scheduler.tick import Ticker
from alkstore_postgres.store import PostgresStore
from tests.support.leading import Leading, late
from tests.support.schedules import ScheduleTable
from tests.support.timing import in_time
from tests.support.waiting import wait_until


def test_a_storm_of_wakes_is_no_storm_of_statements(
    store: PostgresStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    renewals = [0]
    renew = Leases.renew_and_read

    def counting(self: Leases, *args: Any) -> Any:
        renewals[0] += 1
        return renew(self, *args)

    with Leading(store):
        monkeypatch.setattr(Leases, "renew_and_read", counting)
        began = time.monotonic()
        while time.monotonic() - began < 1.5:
            store._parts.hub.wake_here(SCHEDULER_LOCK)
        took = time.monotonic() - began
        assert renewals[0] < 20 * took + 15


def test_a_row_that_is_held_for_long_costs_few_turns_and_delays_no_other(
    store: PostgresStore,
    table: ScheduleTable,
    conninfo: str,
    schema: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    slices = [0]
    one = Ticker.slice

    def counting(self: Ticker, *args: Any, **options: Any) -> Any:
        slices[0] += 1
        return one(self, *args, **options)

    store.schedule("held", "@every 1h", "q", 1)
    store.schedule("free", "@every 1s", "free", 1)
    with psycopg.connect(conninfo) as other, Leading(store):
        ScheduleTable(other, schema).run("SELECT FROM {schedules} WHERE name = 'held' FOR UPDATE")
        other_table = ScheduleTable(other, schema)
        other_table.shift("held", -1)
        other.commit()  # due now
        wait_until(lambda: len(table.fired("held")) == 1)
        other_table.run("SELECT FROM {schedules} WHERE name = 'held' FOR UPDATE")
        table.run("SELECT 1")
        monkeypatch.setattr(Ticker, "slice", counting)
        late(store, "free")  # of these nothing is asked

        def three_more() -> float:
            seen, before, began = len(table.fired("free")), slices[0], time.monotonic()
            wait_until(lambda: len(table.fired("free")) >= seen + 3)
            assert slices[0] - before < 20 * max(time.monotonic() - began, 3)
            return max(late(store, "free")).total_seconds()

        in_time(three_more, 0.5)
        other.rollback()


def check_turns_and_lateness(
    store: PostgresStore, table: ScheduleTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Fail unless ``good`` is fired every second and on time, and costs all slices that there are.

    To be called while a leader leads and another schedule should cost it nothing.
    """
    slices = [0]
    one = Ticker.slice

    def counting(self: Ticker, *args: Any, **options: Any) -> Any:
        slices[0] += 1
        return one(self, *args, **options)

    monkeypatch.setattr(Ticker, "slice", counting)
    late(store, "good")  # of these nothing is asked

    def three_more() -> float:
        seen, before = len(table.fired("good")), slices[0]
        wait_until(lambda: len(table.fired("good")) >= seen + 3)
        did = slices[0] - before
        assert did <= len(table.fired("good")) - seen + 2
        return max(late(store, "good")).total_seconds()

    in_time(three_more, 0.5)


@pytest.mark.parametrize(
    "damage",
    [
        # Due and damaged at once: between two statements a turn could fire it for the next hour.
        "spec = 'banana', next_fire_at = now()",
        "next_fire_at = NULL",
        "paused = NULL, next_fire_at = now()",
    ],
)
def test_a_damaged_row_costs_a_leader_one_line_and_no_further_turns(
    *,
    store: PostgresStore,
    table: ScheduleTable,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    damage: str,
) -> None:
    """Field case B38: in the running loop, without a wake, the others on time."""
    table.unprotect()
    store.schedule("bad", "@every 1h", "q", 1)
    store.schedule("good", "@every 1s", "good", 1)
    with Leading(store, ttl=2.0):
        table.run(f"UPDATE {{schedules}} SET {damage} WHERE name = 'bad'")
        wait_until(lambda: table.value("bad", "quarantine"))
        check_turns_and_lateness(store, table, monkeypatch)
    assert caplog.text.count("is quarantined") == 1


def test_a_paused_schedule_whose_boundary_has_passed_costs_a_leader_no_turns(
    store: PostgresStore, table: ScheduleTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.schedule("paused", "@every 1h", "q", 1)
    store.schedule("good", "@every 1s", "good", 1)
    assert store.pause("paused")
    table.shift("paused", -60)
    with Leading(store, ttl=2.0):
        check_turns_and_lateness(store, table, monkeypatch)
    assert table.fired("paused") == []
