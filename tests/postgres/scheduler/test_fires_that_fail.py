"""A fire that fails: only its schedule is set aside, and told of once (section 7)."""

from __future__ import annotations

import logging

import pytest

from alkstore.errors import DatabaseError
from alkstore_postgres.scheduler.tick import Ticker
from alkstore_postgres.store import PostgresStore
from tests.support.schedules import ScheduleTable, many


def test_one_job_that_cannot_be_stored_does_not_stop_the_others(
    store: PostgresStore, table: ScheduleTable, ticker: Ticker
) -> None:
    """Field case B17: five due schedules, the third is poison."""
    for number in range(1, 6):
        store.schedule(f"s{number}", "@every 1h", "q", number)
        table.shift(f"s{number}", number - 10)
    table.run("CREATE UNIQUE INDEX ON {jobs} (payload)")
    store.queue("elsewhere").enqueue(3)
    assert ticker.tick(None).fired == 4
    assert {name for name, _ in table.ledger()} == {"s1", "s2", "s4", "s5"}
    reasons = {schedule.name: schedule.quarantine for schedule in store.schedules()}
    assert [name for name, reason in reasons.items() if reason] == ["s3"]
    assert "cannot be stored" in str(reasons["s3"])
    assert ticker.tick(None).progress is False


def test_a_failure_that_is_no_rows_fault_quarantines_nobody(
    store: PostgresStore, table: ScheduleTable, ticker: Ticker, schema: str
) -> None:
    for number in range(3):
        store.schedule(f"s{number}", "@every 1h", "q", number)
        table.shift(f"s{number}", -1)
    table.run(
        f'CREATE FUNCTION "{schema}".no() RETURNS trigger LANGUAGE plpgsql AS'
        " $$ BEGIN RAISE insufficient_privilege; END $$"
    )
    table.run(
        f'CREATE TRIGGER no BEFORE INSERT ON {{jobs}} FOR EACH ROW EXECUTE FUNCTION "{schema}".no()'
    )
    with pytest.raises(DatabaseError):
        ticker.tick(None)
    assert [schedule.quarantine for schedule in store.schedules()] == [None] * 3


def test_each_schedule_that_is_set_aside_is_logged_once(
    table: ScheduleTable, ticker: Ticker, caplog: pytest.LogCaptureFixture
) -> None:
    """However many at once: it is the only line that ever names it."""
    many(table, 400)
    table.run("UPDATE {schedules} SET spec = 'banana'")
    with caplog.at_level(logging.WARNING, "alkstore"):
        for quarantined in (400, 0):
            assert ticker.tick(None).quarantined == quarantined
    named = [record.args[0] for record in caplog.records if isinstance(record.args, tuple)]
    assert sorted(map(str, named)) == sorted(f"s{number}" for number in range(1, 401))


def swallow(table: ScheduleTable, on: str, condition: str) -> None:
    """Let a trigger swallow rows silently."""
    schema = table._schema
    table.run(
        f'CREATE FUNCTION "{schema}".swallow() RETURNS trigger LANGUAGE plpgsql AS'
        f" $$ BEGIN IF {condition} THEN RETURN NULL; END IF; RETURN NEW; END $$"
    )
    event = "INSERT" if on == "{jobs}" else "UPDATE"
    table.run(
        f'CREATE TRIGGER swallow BEFORE {event} ON {on} FOR EACH ROW EXECUTE FUNCTION "{schema}"'
        ".swallow()"
    )


def test_jobs_that_were_not_stored_are_noticed_and_only_their_schedule_is_set_aside(
    store: PostgresStore, table: ScheduleTable, ticker: Ticker, caplog: pytest.LogCaptureFixture
) -> None:
    """No error tells of it: what is stored is counted, and the slice undone."""
    for number in range(1, 6):
        store.schedule(f"s{number}", "@every 60s", "q", number)
        table.shift(f"s{number}", -150)
    boundary = table.value("s3", "next_fire_at")
    swallow(table, "{jobs}", "NEW.schedule = 's3' AND NEW.id %% 2 = 0")
    assert ticker.tick(None).fired == 12
    assert {name for name, _ in table.ledger()} == {"s1", "s2", "s4", "s5"}
    assert set(table.ledger().values()) == {1}
    reasons = {schedule.name: schedule.quarantine for schedule in store.schedules()}
    assert [name for name, reason in reasons.items() if reason] == ["s3"]
    assert "for 3 boundaries" in str(reasons["s3"])
    assert table.value("s3", "next_fire_at") == boundary
    assert caplog.text.count("looked at again") == 1
    assert ticker.tick(None).progress is False


def test_a_schedule_that_cannot_be_moved_fires_nothing(
    store: PostgresStore, table: ScheduleTable, ticker: Ticker
) -> None:
    """Else its boundary would fire at each tick."""
    for name in ("stuck", "free"):
        store.schedule(name, "@every 60s", "q", 1)
        table.shift(name, -1)
    swallow(table, "{schedules}", "NEW.name = 'stuck' AND NEW.quarantine IS NULL")
    assert ticker.tick(None).fired == 1
    assert [name for name, _ in table.ledger()] == ["free"]
    stuck = store.get_schedule("stuck")
    assert stuck is not None
    assert "cannot be stored" in str(stuck.quarantine)
