"""Paused schedules, and how they go on (contract section 7)."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

from alkstore_postgres.scheduler.tick import Ticker
from alkstore_postgres.store import PostgresStore
from tests.support.schedules import ScheduleTable

MINUTE = timedelta(minutes=1)


def test_a_paused_schedule_fires_nothing_and_goes_on_on_its_grid(
    store: PostgresStore, table: ScheduleTable, ticker: Ticker
) -> None:
    store.schedule("s", "@every 60s", "q", 1)
    assert store.pause("s")
    assert store.pause("s")
    first = table.shift("s", -150)
    assert ticker.tick(None).fired == 0
    assert store.get_schedule("s").paused  # type: ignore[union-attr]
    assert store.resume("s")
    assert table.value("s", "next_fire_at") == first + 3 * MINUTE
    assert ticker.tick(None).fired == 0, "what was missed while it was paused is not made up for"
    resumed = store.get_schedule("s")
    assert resumed is not None
    assert (resumed.paused, resumed.skipped) == (False, 0)


def test_resuming_a_schedule_that_is_not_paused_passes_nothing_over(
    store: PostgresStore, table: ScheduleTable, ticker: Ticker
) -> None:
    store.schedule("s", "@every 60s", "q", 1)
    missed = table.shift("s", -90)
    assert store.resume("s")
    assert ticker.tick(None).fired == 2
    assert table.fired("s") == [missed, missed + MINUTE]


def test_resuming_never_moves_a_boundary_that_is_still_to_come(
    store: PostgresStore, table: ScheduleTable
) -> None:
    anchor = datetime(2300, 1, 1, tzinfo=timezone.utc)
    store.schedule("s", "@every 60s", "q", 1, starts_at=anchor)
    store.pause("s")
    assert store.resume("s")
    assert table.value("s", "next_fire_at") == anchor


def test_a_registration_does_not_unpause(store: PostgresStore, table: ScheduleTable) -> None:
    store.schedule("s", "@every 60s", "q", 1)
    store.pause("s")
    assert store.schedule("s", "@every 60s", "q", 2).paused
    assert store.schedule("s", "@every 30s", "q", 2).paused
    assert store.get_schedule("s").paused  # type: ignore[union-attr]
