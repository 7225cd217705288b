"""The tick: what fires, and with which stamps (contract section 7)."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import timedelta

import psycopg
import pytest

from alkstore_postgres.scheduler.tick import Ticker
from alkstore_postgres.store import PostgresStore
from tests.support.schedules import ScheduleTable
from tests.support.waiting import wait_until

SECOND = timedelta(seconds=1)
MINUTE = timedelta(minutes=1)


def test_a_fired_job_carries_its_boundary_and_the_stamps_of_its_schedule(
    store: PostgresStore, table: ScheduleTable, ticker: Ticker
) -> None:
    store.schedule("s", "@every 1h", "q", [1], priority=9, expires=90, max_attempts=7)
    boundary = table.shift("s", -5)
    assert ticker.tick(None).fired == 1
    (job,) = store.queue("q").claim("w")
    whole = store.get_job(job.id)
    assert whole is not None
    assert (whole.schedule, whole.scheduled_for) == ("s", boundary)
    assert (whole.payload, whole.priority, whole.max_attempts) == ([1], 9, 7)
    assert (whole.visibility_timeout, whole.base_backoff) == (5 * MINUTE, MINUTE)
    assert whole.enqueued_at == whole.run_at
    assert whole.enqueued_at >= boundary + 5 * SECOND
    assert whole.expires_at == whole.enqueued_at + 90 * SECOND
    schedule = store.get_schedule("s")
    assert schedule is not None
    assert (schedule.last_fire_at, schedule.next_fire_at) == (
        boundary,
        boundary + timedelta(hours=1),
    )


def test_a_schedule_without_options_fires_jobs_with_the_queue_defaults(
    store: PostgresStore, table: ScheduleTable, ticker: Ticker
) -> None:
    store.schedule("s", "@every 1h", "q", None)
    table.shift("s", -1)
    ticker.tick(None)
    (handle,) = store.queue("q", max_attempts=99).claim("w")
    job = store.get_job(handle.id)
    assert job is not None
    assert (job.priority, job.expires_at, job.max_attempts) == (0, None, 3)


def test_nothing_fires_before_its_boundary(
    store: PostgresStore, table: ScheduleTable, ticker: Ticker
) -> None:
    store.schedule("s", "@every 1h", "q", 1)
    table.shift("s", 5)
    done = ticker.tick(None)
    assert (done.fired, done.progress) == (0, False)
    assert done.outlook is not None
    assert done.outlook.soonest is not None
    assert 0 < done.outlook.soonest - done.outlook.now <= 5_000_000


def test_jobs_are_stored_in_the_order_of_their_boundaries(
    store: PostgresStore, table: ScheduleTable, ticker: Ticker
) -> None:
    for name in ("a", "b", "c"):
        store.schedule(name, "@every 60s", "q", 1)
        table.shift(name, -200)
    ticker.tick(None)
    rows = table.run("SELECT scheduled_for FROM {jobs} ORDER BY id").fetchall()
    assert len(rows) == 12
    assert rows == sorted(rows)


def test_rows_that_another_transaction_holds_are_left_for_later(
    store: PostgresStore, table: ScheduleTable, ticker: Ticker, conninfo: str, schema: str
) -> None:
    for name in ("held", "free"):
        store.schedule(name, "@every 1h", "q", 1)
        table.shift(name, -1)
    with psycopg.connect(conninfo) as other:
        ScheduleTable(other, schema).run("SELECT FROM {schedules} WHERE name = 'held' FOR UPDATE")
        done = ticker.tick(None)
        assert done.fired == 1
        assert done.outlook is not None
        assert done.outlook.due
        other.rollback()
    assert ticker.tick(None).fired == 1


def test_what_was_changed_between_the_look_and_the_lock_fires_as_it_is_now(
    *,
    store: PostgresStore,
    open_store: Callable[..., PostgresStore],
    table: ScheduleTable,
    caplog: pytest.LogCaptureFixture,
    conninfo: str,
    schema: str,
) -> None:
    """A row that moved within its table while the due statement waited is found where it is."""
    for number in range(3):
        store.schedule(f"s{number}", "@every 60s", "q", "old")
        table.shift(f"s{number}", -1)
    ticking = open_store()._parts
    slow = Ticker(ticking.database, ticking.leases, ticking.sender.channel, ttl=60.0)
    table.run(
        f'CREATE FUNCTION "{schema}".gate(timestamptz) RETURNS timestamptz LANGUAGE plpgsql STABLE'
        " AS $$ BEGIN PERFORM pg_advisory_xact_lock(4712); RETURN $1; END $$"
    )
    slow._sql._queries["due", None] = slow._sql["due"].replace(
        b"SELECT pg_catalog.statement_timestamp()",
        b'SELECT "%s".gate(pg_catalog.statement_timestamp())' % schema.encode(),
    )
    fired: list[int] = []
    with psycopg.connect(conninfo) as gate:
        gate.execute("SELECT pg_advisory_xact_lock(4712)")
        thread = threading.Thread(target=lambda: fired.append(slow.tick(None).fired))
        thread.start()
        wait_until(
            lambda: table.run(
                "SELECT 1 FROM pg_locks WHERE objid = 4712 AND NOT granted"
            ).fetchone()
        )
        for number in range(3):
            store.schedule(f"s{number}", "@every 60s", "q", "new")
        gate.rollback()
        thread.join(20)
    assert fired == [3]
    assert caplog.text == "", "the slice worked at once"
    assert [job.payload for job in store.queue("q").claim("w", limit=9)] == ["new"] * 3
    assert {schedule.quarantine for schedule in store.schedules()} == {None}
