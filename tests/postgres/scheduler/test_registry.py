"""Registering, looking at and managing schedules (contract section 7)."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from itertools import pairwise
from typing import Any

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from alkstore import (
    EncodeError,
    InvalidName,
    InvalidOption,
    InvalidSpec,
    PayloadTooLarge,
    ReservedName,
    ScheduleQuarantined,
    UnknownSchedule,
)
from alkstore.errors import AlkstoreError
from alkstore.names import SCHEDULER_LOCK
from alkstore.values import Schedule
from alkstore_postgres.scheduler.tick import Ticker
from alkstore_postgres.store import PostgresStore
from tests.support.cursors import Run, around_statements
from tests.support.ear import Ear
from tests.support.schedules import ScheduleTable
from tests.support.waiting import wait_until

MINUTE = timedelta(minutes=1)


def counted_round_trips(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """Return the statements of the engine from now on; none of them is sent."""
    round_trips: list[bytes] = []

    def counted(_run: Run) -> Run:
        return lambda _cursor, query, *_args, **_options: round_trips.append(query)

    around_statements(monkeypatch, counted)
    return round_trips


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
    made = store.schedule("s", "@every 7s", "q", 1, starts_at=anchor)
    assert made.next_fire_at is not None
    assert (made.next_fire_at - anchor) % timedelta(seconds=7) == timedelta(0)
    assert timedelta(0) < made.next_fire_at - table.now() <= timedelta(seconds=7)
    assert ticker.tick(None).fired == 0
    assert store.schedule("s", "@every 7s", "q", 1, starts_at=anchor) == made
    moved = store.schedule("s", "@every 7s", "q", 1, starts_at=anchor + timedelta(seconds=1))
    assert moved.next_fire_at is not None
    assert (moved.next_fire_at - anchor) % timedelta(seconds=7) == timedelta(seconds=1)


def test_the_longest_interval_works(
    store: PostgresStore, table: ScheduleTable, ticker: Ticker
) -> None:
    made = store.schedule("s", "@every 36500d", "q", 1)
    assert made.interval == timedelta(days=36_500)
    due = table.shift("s", -1)
    assert ticker.tick(None).fired == 1
    assert table.value("s", "next_fire_at") == due + made.interval


@pytest.mark.parametrize(
    ("arguments", "options", "error"),
    [
        (("", "@every 1s", "q", 1), {}, InvalidName),
        (("__alkstore_x", "@every 1s", "q", 1), {}, ReservedName),
        ((b"s", "@every 1s", "q", 1), {}, InvalidName),
        (("s", "* * * * *", "q", 1), {}, InvalidSpec),
        (("s", None, "q", 1), {}, InvalidSpec),
        (("s", "@every 1s", "", 1), {}, InvalidName),
        (("s", "@every 1s", "__alkstore_outbox:x", 1), {}, ReservedName),
        (("s", "@every 1s", "q", float("nan")), {}, EncodeError),
        (("s", "@every 1s", "q", "x" * 2_000_000), {}, PayloadTooLarge),
        (("s", "@every 1s", "q", 1), {"catch_up": "none"}, InvalidOption),
        (("s", "@every 1s", "q", 1), {"starts_at": datetime(2030, 1, 1)}, InvalidOption),  # noqa: DTZ001
        (("s", "@every 1s", "q", 1), {"starts_at": "2030-01-01"}, InvalidOption),
        (
            ("s", "@every 1s", "q", 1),
            {"starts_at": datetime.max.replace(tzinfo=timezone.utc)},
            InvalidOption,
        ),
        (("s", "@every 1s", "q", 1), {"expires": 0}, InvalidOption),
        (("s", "@every 1s", "q", 1), {"max_attempts": 0}, InvalidOption),
        (("s", "@every 1s", "q", 1), {"priority": 40_000}, InvalidOption),
        (("s", "@every 1s", "q", 1), {"delay": 1}, InvalidOption),
    ],
)
def test_a_refusal_comes_before_any_round_trip(
    store: PostgresStore,
    monkeypatch: pytest.MonkeyPatch,
    arguments: tuple[Any, ...],
    options: dict[str, Any],
    error: type[AlkstoreError],
) -> None:
    round_trips = counted_round_trips(monkeypatch)
    with pytest.raises(error) as refusal:
        store.schedule(*arguments, **options)
    assert isinstance(refusal.value, ValueError)
    assert round_trips == []


def test_name_spec_and_queue_are_checked_before_the_payload_is_encoded(
    open_store: Callable[..., PostgresStore],
) -> None:
    class Counting:
        calls = 0

        def encode(self, value: Any, /) -> bytes:
            del value
            Counting.calls += 1
            return b"x"

        def decode(self, raw: bytes, /) -> Any:
            return raw

    store = open_store(codec=Counting())
    for name, spec, queue in (("", "@every 1s", "q"), ("s", "no", "q"), ("s", "@every 1s", "")):
        with pytest.raises(ValueError, match="invalid"):
            store.schedule(name, spec, queue, 1)
    assert Counting.calls == 0
    store.schedule("s", "@every 1s", "q", 1)
    assert Counting.calls == 1


@pytest.mark.parametrize("call", ["unschedule", "get_schedule", "pause", "resume", "run_now"])
def test_every_call_checks_the_name_first(
    store: PostgresStore, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    round_trips = counted_round_trips(monkeypatch)
    for name, error in (("", InvalidName), ("__alkstore_s", ReservedName), (7, InvalidName)):
        with pytest.raises(error):
            getattr(store, call)(name)
    assert round_trips == []


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


def test_run_now_fires_one_extra_job_and_moves_no_boundary(
    store: PostgresStore, table: ScheduleTable
) -> None:
    made = store.schedule("s", "@every 1h", "q", [1], priority=5, expires=60, max_attempts=9)
    job = store.get_job(store.run_now("s"))
    assert job is not None
    assert (job.queue, job.payload, job.priority, job.max_attempts) == ("q", [1], 5, 9)
    assert (job.schedule, job.scheduled_for) == ("s", None)
    assert job.expires_at == job.enqueued_at + MINUTE
    assert (job.visibility_timeout, job.base_backoff) == (5 * MINUTE, MINUTE)
    assert store.get_schedule("s") == made
    store.pause("s")
    assert store.run_now("s") > job.id


def test_run_now_is_heard_by_who_waits_for_the_queue(store: PostgresStore) -> None:
    store.schedule("s", "@every 1h", "q", 1)
    with store.listen("q") as listener:
        wait_until(lambda: store._parts.hub.state == "listening")
        while listener.wait(0.01) is not None:
            pass  # the wake of the first connection
        store.run_now("s")
        wake = listener.wait(5)
    assert wake is not None
    assert wake.channel == "q"


def test_run_now_of_a_quarantined_schedule_is_refused(
    store: PostgresStore, table: ScheduleTable
) -> None:
    store.schedule("s", "@every 1h", "q", 1)
    table.set("s", "spec", "'banana'")
    with pytest.raises(ScheduleQuarantined, match="banana"):
        store.run_now("s")
    assert table.jobs() == 0


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
