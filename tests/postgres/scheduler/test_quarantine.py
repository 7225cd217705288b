"""Rows that were damaged by hand never stop or delay the others (field case B38)."""

from __future__ import annotations

import logging
from datetime import timedelta
from typing import Any

import pytest

from alkstore import ScheduleQuarantined
from alkstore_postgres.scheduler.plan import Plan
from alkstore_postgres.scheduler.tick import Ticker
from alkstore_postgres.store import PostgresStore
from tests.support.schedules import ScheduleTable
from tests.support.waiting import wait_until

DAMAGE = [
    ("spec", "'banana'", "invalid spec"),
    ("spec", "''", "invalid spec"),
    ("spec", "'* * * * *'", "invalid spec"),
    ("spec", "'@every 0s'", "zero"),
    ("spec", "'@every -5m'", "invalid spec"),
    ("spec", "'@every 999999999h'", "too long"),
    ("spec", "repeat('x', 1000000)", "invalid spec"),
    ("spec", "NULL", "invalid spec"),
    ("queue", "''", "invalid queue name"),
    ("queue", "'__alkstore_outbox:x'", "reserved queue name"),
    ("queue", "repeat('x', 9000)", "invalid queue name"),
    ("queue", "E'a\\nb'", "invalid queue name"),
    ("queue", "NULL", "invalid queue name"),
    ("payload", "NULL", "payload is NULL"),
    ("priority", "NULL", "priority"),
    ("expires", "-1", "expires"),
    ("expires", "0", "expires"),
    ("expires", "'NaN'", "expires"),
    ("expires", "'Infinity'", "expires"),
    ("expires", "'-Infinity'", "expires"),
    ("expires", "1e300", "expires"),
    ("max_attempts", "0", "max_attempts"),
    ("max_attempts", "-1", "max_attempts"),
    ("catch_up", "'never'", "catch_up"),
    ("catch_up", "NULL", "catch_up"),
    ("starts_at", "'infinity'", "starts_at"),
    ("starts_at", "'-infinity'", "starts_at"),
    ("next_fire_at", "NULL", "next_fire_at is NULL"),
    ("next_fire_at", "'infinity'", "next_fire_at is infinite"),
    ("next_fire_at", "'-infinity'", "next_fire_at is infinite"),
    ("next_fire_at", "'4000-01-01 BC'", "next_fire_at is infinite"),
    ("next_fire_at", "'20000-01-01'", "next_fire_at is infinite"),
    ("starts_at", "'20000-01-01'", "starts_at"),
    ("starts_at", "'4000-01-01 BC'", "starts_at"),
    ("queue", "repeat('é', 101)", "invalid queue name"),
    ("queue", "'__alkstore_scheduler'", "reserved queue name"),
    ("paused", "NULL", "paused is NULL"),
]
IDS = [f"{column}-{expression[:20]}" for column, expression, _ in DAMAGE]
HOUR = timedelta(hours=1)


@pytest.fixture
def pair(store: PostgresStore, table: ScheduleTable) -> PostgresStore:
    """A store with two schedules that are due: the first one is for damage."""
    for name in ("bad", "good"):
        store.schedule(name, "@every 1h", "q", 1)
        table.shift(name, -1)
    table.unprotect()
    return store


@pytest.mark.parametrize(("column", "expression", "reason"), DAMAGE, ids=IDS)
def test_a_damaged_row_is_set_aside_and_the_others_fire(
    *,
    pair: PostgresStore,
    table: ScheduleTable,
    ticker: Ticker,
    caplog: pytest.LogCaptureFixture,
    column: str,
    expression: str,
    reason: str,
) -> None:
    table.set("bad", column, expression)
    shown = pair.get_schedule("bad")
    assert shown is not None
    assert reason in str(shown.quarantine), "the reason shows before any tick met the row"
    assert pair._parts.registry.report().quarantined == {"bad": shown.quarantine}
    with caplog.at_level(logging.WARNING, "alkstore"):
        assert ticker.tick(None).fired == 1
        assert [record.levelname for record in caplog.records] == ["ERROR"]
        assert reason in caplog.text
        assert [name for name, _ in table.ledger()] == ["good"]
        for _ in range(3):
            assert ticker.tick(None).progress is False, "it is not tried again and again"
    assert len(caplog.records) == 1
    assert reason in table.value("bad", "quarantine")
    assert [schedule.quarantine is None for schedule in pair.schedules()] == [False, True]
    outlook = ticker.tick(None).outlook
    assert outlook is not None
    assert not outlook.pending


@pytest.mark.parametrize(("column", "expression", "reason"), DAMAGE, ids=IDS)
def test_registering_again_mends_it(
    *,
    pair: PostgresStore,
    table: ScheduleTable,
    ticker: Ticker,
    column: str,
    expression: str,
    reason: str,
) -> None:
    del reason
    before = table.value("bad", "next_fire_at")
    table.set("bad", column, expression)
    ticker.tick(None)
    mended = pair.schedule("bad", "@every 1h", "q", 1)
    assert mended.quarantine is None
    assert mended == pair.get_schedule("bad")
    assert (mended.queue, mended.payload, mended.priority, mended.expires) == ("q", 1, 0, None)
    if column in ("spec", "next_fire_at", "starts_at"):
        assert mended.next_fire_at is not None
        assert timedelta(0) < mended.next_fire_at - table.now() <= HOUR
        table.shift("bad", -1)
    else:
        assert mended.next_fire_at == before, "the grid is sound: it is kept"
    assert ticker.tick(None).fired == 1


@pytest.mark.parametrize(
    ("column", "expression", "value"),
    [
        ("skipped", "NULL", 0),
        ("skipped", "-7", 0),
        ("skipped", "9223372036854775807", 2**63 - 1),
        ("last_fire_at", "'infinity'", None),
        ("created_at", "NULL", None),
        ("updated_at", "'-infinity'", None),
    ],
)
def test_damage_that_does_not_keep_it_from_firing_is_written_over(
    *,
    pair: PostgresStore,
    table: ScheduleTable,
    ticker: Ticker,
    column: str,
    expression: str,
    value: int | None,
) -> None:
    table.set("bad", column, expression)
    before = pair.get_schedule("bad")
    assert before is not None
    assert before.quarantine is None
    assert ticker.tick(None).fired == 2
    after = pair.get_schedule("bad")
    assert after is not None
    assert after.last_fire_at is not None
    if column == "skipped":
        assert before.skipped == after.skipped == value


def test_a_priority_that_no_job_can_have_is_set_aside(
    pair: PostgresStore, table: ScheduleTable, ticker: Ticker
) -> None:
    table.run("ALTER TABLE {schedules} ALTER COLUMN priority TYPE integer")
    table.set("bad", "priority", "40000")
    assert ticker.tick(None).fired == 1
    shown = pair.get_schedule("bad")
    assert shown is not None
    assert "priority" in str(shown.quarantine)


@pytest.mark.parametrize("name", ["'__alkstore_x'", "repeat('x', 201)", "''", "E'a\\nb'"])
def test_a_name_that_breaks_the_rule_is_set_aside(
    pair: PostgresStore, table: ScheduleTable, ticker: Ticker, name: str
) -> None:
    """No call takes such a name, so nothing mends it: it is shown, and harms nobody."""
    table.set("bad", "name", name)
    assert ticker.tick(None).fired == 1
    assert [name for name, _ in table.ledger()] == ["good"]
    reasons = {schedule.name: schedule.quarantine for schedule in pair.schedules()}
    assert "schedule name" in str(next(why for name, why in reasons.items() if name != "good"))
    assert ticker.tick(None).progress is False


@pytest.mark.parametrize("time", ["next_fire_at", "NULL", "'infinity'"])
def test_rows_whose_names_do_not_tell_them_apart_are_set_aside_each(
    *,
    pair: PostgresStore,
    table: ScheduleTable,
    ticker: Ticker,
    caplog: pytest.LogCaptureFixture,
    time: str,
) -> None:
    """The key and the names are gone: a row is found where it is, not by its name."""
    table.run("ALTER TABLE {schedules} DROP CONSTRAINT schedules_pkey")
    table.run("ALTER TABLE {schedules} ALTER COLUMN name DROP NOT NULL")
    table.run("INSERT INTO {schedules} SELECT * FROM {schedules} WHERE name = 'bad'")
    table.run(f"UPDATE {{schedules}} SET name = NULL, next_fire_at = {time} WHERE name = 'bad'")
    done = ticker.tick(None)
    assert (done.fired, done.quarantined) == (1, 2)
    assert caplog.text.count("is quarantined") == 2
    assert ticker.tick(None).progress is False
    assert caplog.text.count("is quarantined") == 2
    shown = sorted((one.name, one.quarantine is None) for one in pair.schedules())
    assert shown == [("", False), ("", False), ("good", True)]
    assert "schedule name" in pair._parts.registry.report().quarantined[""]


@pytest.mark.parametrize("count", [3, 500])
def test_a_row_that_cannot_be_set_aside_either_is_no_progress_and_told_once(
    *,
    pair: PostgresStore,
    table: ScheduleTable,
    ticker: Ticker,
    caplog: pytest.LogCaptureFixture,
    count: int,
) -> None:
    """A trigger swallows the change: the tick ends, and the loop does not spin."""
    table.run(
        "INSERT INTO {schedules} (name, spec, queue, payload, priority, catch_up, next_fire_at,"
        " created_at, updated_at) SELECT 's' || n, 'banana', 'q', '1', 0, 'all',"
        " now() - interval '1 h', now(), now() FROM generate_series(1, %s) n",
        count,
    )
    table.run(
        f'CREATE FUNCTION "{table._schema}".swallow() RETURNS trigger LANGUAGE plpgsql AS'
        " $$ BEGIN RETURN CASE WHEN NEW.spec = 'banana' THEN NULL ELSE NEW END; END $$"
    )
    table.run(
        "CREATE TRIGGER swallow BEFORE UPDATE ON {schedules} FOR EACH ROW"
        f' EXECUTE FUNCTION "{table._schema}".swallow()'
    )
    done = [ticker.tick(None) for _ in range(4)]
    assert [one.quarantined for one in done] == [0] * 4
    assert done[-1].progress is False
    assert done[-1].outlook is not None
    assert done[-1].outlook.pending
    assert caplog.text.count("could not be quarantined") == 1
    assert f"{count} schedules" in caplog.text
    assert {one.quarantine is None for one in pair.schedules() if one.spec == "banana"} == {False}


def test_a_boundary_in_the_last_second_of_the_calendar_waits_for_its_time(
    pair: PostgresStore, table: ScheduleTable, ticker: Ticker
) -> None:
    """Far, but sound."""
    table.set("bad", "next_fire_at", "'9999-12-31 23:59:59+00'")
    assert ticker.tick(None).fired == 1
    shown = pair.get_schedule("bad")
    assert shown is not None
    assert (shown.quarantine, table.value("bad", "quarantine")) == (None, None)


def test_a_payload_that_does_not_decode_is_the_handlers_affair(
    pair: PostgresStore, table: ScheduleTable, ticker: Ticker
) -> None:
    table.set("bad", "payload", "'\\xff'")
    assert ticker.tick(None).fired == 2
    shown = pair.get_schedule("bad")
    assert shown is not None
    assert (shown.quarantine, shown.raw) == (None, b"\xff")


def test_a_quarantined_row_can_be_paused_resumed_removed_but_not_run(
    pair: PostgresStore, table: ScheduleTable, ticker: Ticker
) -> None:
    table.set("bad", "spec", "'banana'")
    ticker.tick(None)
    assert pair.pause("bad")
    assert pair.resume("bad")
    with pytest.raises(ScheduleQuarantined):
        pair.run_now("bad")
    assert ticker.tick(None).progress is False
    assert pair.unschedule("bad")


def test_a_damaged_row_that_is_resumed_is_set_aside_at_its_time(
    pair: PostgresStore, table: ScheduleTable, ticker: Ticker
) -> None:
    pair.pause("bad")
    table.set("bad", "spec", "'banana'")
    assert ticker.tick(None).quarantined == 0
    assert pair.resume("bad")
    assert ticker.tick(None).quarantined == 1


def test_damaged_times_are_found_by_the_index(
    store: PostgresStore, table: ScheduleTable, schema: str
) -> None:
    table.unprotect()
    table.run(
        "INSERT INTO {schedules} (name, spec, queue, payload, priority, catch_up, next_fire_at,"
        " created_at, updated_at) SELECT 's' || n, '@every 1h', 'q', '1', 0, 'all',"
        " now() + interval '1 h', now(), now() FROM generate_series(1, 5000) n"
    )
    table.run("ANALYZE {schedules}")
    from alkstore_postgres.database.statements import Statements

    ticks = Statements("alkstore_postgres.scheduler", "tick.sql", schema)
    outlook = Statements("alkstore_postgres.scheduler", "outlook.sql", schema)["outlook"]
    for statement, values in (
        (ticks["due"], {"rows": 500, "since": "-infinity"}),
        (ticks["missing"], {"rows": 500}),
        (ticks["beyond"], {"rows": 500}),
        (outlook, {}),
    ):
        cursor: Any = table._connection.execute(b"EXPLAIN (ANALYZE, BUFFERS) " + statement, values)
        text = "\n".join(row[0] for row in cursor)
        assert "schedules_due" in text
        assert "Seq Scan" not in text


def test_overdue_schedules_are_reported_as_late(pair: PostgresStore, table: ScheduleTable) -> None:
    """Field case B123: an enabled schedule that nobody fires shows."""
    table.shift("bad", -3 * 3_600)
    pair.schedule("paused", "@every 1s", "q", 1)
    pair.pause("paused")
    table.shift("paused", -3_600)
    report = pair._parts.registry.report()
    assert (report.total, report.paused, report.late, report.quarantined) == (3, 1, ["bad"], {})


def test_the_health_call_of_a_leader_tells_of_late_and_quarantined_schedules(
    pair: PostgresStore, table: ScheduleTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Field case B123: a healthy-looking thread is not enough."""
    table.set("bad", "spec", "'banana'")
    runner = pair.start_scheduler()
    wait_until(lambda: table.jobs() == 1 and runner.state == "leading")
    assert pair.start_scheduler() is runner
    # A health call does not wait for long: one whose answer is late tells that instead.
    wait_until(lambda: list(runner.health().details.get("quarantined", ())) == ["bad"])
    assert runner.health().healthy
    monkeypatch.setattr(Ticker, "_read", lambda *_: (Plan(), [], None))
    table.shift("good", -3 * 3_600)
    wait_until(lambda: runner.health().details.get("late") == ["good"])
    wait_until(lambda: not runner.health().healthy)
    monkeypatch.undo()
    wait_until(lambda: runner.health().healthy)
