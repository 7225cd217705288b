"""Registering schedules and looking at them (contract section 7)."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from itertools import pairwise
from typing import Any

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from alkstore import UnknownSchedule
from alkstore.names import SCHEDULER_LOCK
from alkstore.values import Schedule
from alkstore_postgres.scheduler.tick import Ticker
from alkstore_postgres.store import PostgresStore
from tests.support.ear import Ear
from tests.support.schedules import ScheduleTable

MINUTE = timedelta(minutes=1)


def test_a_registration_returns_the_row_as_stored(
    store: PostgresStore, table: ScheduleTable
) -> None:
    before = table.now()
    made = store.schedule(
        "report", " @every 90s\n", "mail", {"to": "all"}, priority=-7, expires=30, max_attempts=4,
        catch_up="latest",
    )  # fmt: skip
    assert made == store.get_schedule("report")
    assert (made.name, made.spec, made.queue) == ("report", " @every 90s\n", "mail")
    assert made.interval == timedelta(seconds=90)
    assert made.payload == {"to": "all"}
    assert made.raw == b'{"to":"all"}'
    assert (made.priority, made.expires, made.max_attempts) == (-7, timedelta(seconds=30), 4)
    assert (made.starts_at, made.catch_up) == (None, "latest")
    assert (made.last_fire_at, made.paused, made.skipped, made.quarantine) == (None, False, 0, None)
    assert made.next_fire_at is not None
    assert before + made.interval <= made.next_fire_at <= table.now() + made.interval


def test_registering_again_keeps_the_grid_and_what_has_happened(
    store: PostgresStore, table: ScheduleTable, ticker: Ticker
) -> None:
    """Field cases B09, B10, B11: boots do not push a schedule away."""
    store.schedule("s", "@every 1h", "q", 1)
    missed = table.shift("s", -30)
    for spelling in ("@every 1h", "@every 60m", "@every 3600s", "@every 001h"):
        again = store.schedule("s", spelling, "q", 1)
        assert again.next_fire_at == missed
        assert again.spec == spelling
    ticker.tick(None)
    assert table.fired("s") == [missed]
    after = store.schedule("s", "@every 1h", "q", {"new": True})
    assert after.next_fire_at == missed + timedelta(hours=1)
    assert after.last_fire_at == missed
    assert after.payload == {"new": True}


def test_an_unchanged_registration_writes_nothing_and_wakes_nobody(
    store: PostgresStore, table: ScheduleTable, ear: Ear
) -> None:
    """Field case B10: twenty boots leave the row as it is."""
    options: dict[str, Any] = {"priority": 3, "expires": 1.5, "max_attempts": 2}
    ear.heard()
    first = store.schedule("s", "@every 1h", "q", [1], **options)
    before = table.row("s")
    assert ear.heard() == [SCHEDULER_LOCK]
    for _ in range(20):
        assert store.schedule("s", "@every 1h", "q", [1], **options) == first
    assert ear.heard() == []
    assert table.row("s") == before


def test_a_changed_interval_starts_a_new_grid_from_now(
    store: PostgresStore, table: ScheduleTable, ticker: Ticker
) -> None:
    """Field cases B12 and B15: neither the old boundary nor a burst of new ones."""
    store.schedule("s", "@every 24h", "q", 1)
    table.shift("s", -1_800)
    before = table.now()
    changed = store.schedule("s", "@every 10m", "q", 1)
    assert changed.next_fire_at is not None
    assert before + 10 * MINUTE <= changed.next_fire_at <= table.now() + 10 * MINUTE
    assert ticker.tick(None).fired == 0
    back = store.schedule("s", "@every 24h", "q", 1)
    assert back.next_fire_at is not None
    assert back.next_fire_at >= before + timedelta(hours=24)


def test_an_anchor_in_the_future_is_the_first_boundary(store: PostgresStore) -> None:
    anchor = datetime(2300, 1, 1, tzinfo=timezone(timedelta(hours=5)))
    made = store.schedule("s", "@every 1d", "q", 1, starts_at=anchor)
    assert made.next_fire_at == made.starts_at == anchor
    assert made.next_fire_at is not None
    assert made.next_fire_at.utcoffset() == timedelta(0)


def test_an_anchor_in_the_past_fixes_the_grid_and_fires_nothing_old(
    store: PostgresStore, table: ScheduleTable, ticker: Ticker
) -> None:
    anchor = datetime(2001, 2, 3, 4, 5, 6, 789, tzinfo=timezone.utc)
    made = store.schedule("s", "@every 7h", "q", 1, starts_at=anchor)
    assert made.next_fire_at is not None
    assert (made.next_fire_at - anchor) % timedelta(hours=7) == timedelta(0)
    assert timedelta(0) < made.next_fire_at - table.now() <= timedelta(hours=7)
    assert ticker.tick(None).fired == 0
    assert store.schedule("s", "@every 7h", "q", 1, starts_at=anchor) == made
    moved = store.schedule("s", "@every 7h", "q", 1, starts_at=anchor + timedelta(seconds=1))
    assert moved.next_fire_at is not None
    assert (moved.next_fire_at - anchor) % timedelta(hours=7) == timedelta(seconds=1)


def test_the_longest_interval_works(
    store: PostgresStore, table: ScheduleTable, ticker: Ticker
) -> None:
    made = store.schedule("s", "@every 36500d", "q", 1)
    assert made.interval == timedelta(days=36_500)
    due = table.shift("s", -1)
    assert ticker.tick(None).fired == 1
    assert table.value("s", "next_fire_at") == due + made.interval


@pytest.mark.parametrize(
    "name", ["a b", "'; DROP TABLE schedules; --", "%s %(name)s {x}", "\U0001f40c", "a/b\\c", '"q"']
)
def test_any_text_within_the_naming_rule_works(
    store: PostgresStore, table: ScheduleTable, ticker: Ticker, name: str
) -> None:
    store.schedule(name, "@every 1h", name, {"name": name})
    table.shift(name, -1)
    assert ticker.tick(None).fired == 1
    (job,) = store.queue(name).claim("w")
    assert (job.schedule, job.payload) == (name, {"name": name})
    assert store.pause(name)
    assert store.resume(name)
    assert store.run_now(name)
    assert store.unschedule(name)


def test_schedules_come_by_name_whatever_the_collation(store: PostgresStore) -> None:
    names = ["b", "a", "B", "\u00e4", "Z", "a b", "_", "0"]
    for name in names:
        store.schedule(name, "@every 1h", "q", 1)
    assert [schedule.name for schedule in store.schedules()] == sorted(names)


def test_what_is_not_there(store: PostgresStore) -> None:
    assert store.get_schedule("s") is None
    assert store.schedules() == []
    assert store.unschedule("s") is False
    assert store.pause("s") is False
    assert store.resume("s") is False
    with pytest.raises(UnknownSchedule, match="there is no schedule 's'") as refusal:
        store.run_now("s")
    assert isinstance(refusal.value, KeyError)
    assert str(refusal.value) == "there is no schedule 's'"


def test_unscheduling_is_repeatable_and_leaves_fired_jobs(
    store: PostgresStore, table: ScheduleTable, ticker: Ticker
) -> None:
    store.schedule("s", "@every 1h", "q", 1)
    table.shift("s", -1)
    ticker.tick(None)
    assert store.unschedule("s") is True
    assert store.unschedule("s") is False
    assert store.queue("q").size() == 1


def test_registering_at_once_from_many_threads_makes_one_schedule(
    open_store: Callable[..., PostgresStore], connection: psycopg.Connection[Any], schema: str
) -> None:
    store = open_store(max_size=8)
    table = ScheduleTable(connection, schema)
    barrier = threading.Barrier(8)
    made: list[Schedule] = []

    def register() -> None:
        barrier.wait()
        names = [f"s{number}" for number in range(10)]
        made.extend(store.schedule(name, "@every 1h", "q", 1) for name in names)

    threads = [threading.Thread(target=register) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(made) == 80
    assert len(store.schedules()) == 10
    for schedule in made:
        assert schedule.next_fire_at == table.value(schedule.name, "next_fire_at")


def test_a_registration_waits_for_the_tick_that_holds_the_row(
    store: PostgresStore, conninfo: str, schema: str, table: ScheduleTable
) -> None:
    """The clock is read after the wait: the new grid is never behind it."""
    store.schedule("s", "@every 1h", "q", 1)
    with psycopg.connect(conninfo) as other:
        ScheduleTable(other, schema).run("SELECT FROM {schedules} FOR UPDATE")
        made: list[Schedule] = []
        thread = threading.Thread(
            target=lambda: made.append(store.schedule("s", "@every 10s", "q", 1))
        )
        thread.start()
        thread.join(0.3)
        assert thread.is_alive()
        released = table.now()
    thread.join(10)
    assert made[0].next_fire_at is not None
    assert made[0].next_fire_at >= released + timedelta(seconds=10)


@pytest.mark.parametrize("zone", ["Europe/Berlin", "America/New_York", "Pacific/Auckland"])
def test_intervals_are_elapsed_time_in_every_time_zone(
    conninfo: str, schema: str, table: ScheduleTable, zone: str
) -> None:
    """Field case B135: both changes of the clocks lie between these boundaries."""
    import alkstore_postgres

    told = make_conninfo(conninfo, options=f"-c TimeZone={zone}")
    with alkstore_postgres.open(told, schema) as store:
        anchor = datetime(2035, 3, 1, 12, 0, tzinfo=timezone.utc)
        made = store.schedule("s", "@every 24h", "q", 1, starts_at=anchor)
        assert made.next_fire_at == anchor
        assert made.starts_at == anchor
        parts = store._parts
        ticker = Ticker(parts.database, parts.leases, parts.sender.channel, ttl=10.0)
        table.run("UPDATE {schedules} SET next_fire_at = clock_timestamp() - interval '1500 h'")
        ticker.tick(None)
        fired = table.fired("s")
        assert len(fired) == 63
        gaps = {after - before for before, after in pairwise(fired)}
        assert gaps == {timedelta(hours=24)}
