"""The tick: what fires, with which stamps, in how many statements (contract section 7)."""

from __future__ import annotations

import logging
import threading
from collections import Counter as Counted
from collections.abc import Callable
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import psycopg
import pytest

from alkstore.errors import DatabaseError
from alkstore.names import SCHEDULER_LOCK
from alkstore_postgres.database.arrays import LongArray, MomentArray, TidArray
from alkstore_postgres.database.session import Session
from alkstore_postgres.database.statements import Statements
from alkstore_postgres.lock.leases import Lease
from alkstore_postgres.scheduler import slices
from alkstore_postgres.scheduler import tick as tick_module
from alkstore_postgres.scheduler.slice_size import FIRST_ROWS, SliceSize
from alkstore_postgres.scheduler.tick import LeaseNotProven, Ticker
from alkstore_postgres.store import PostgresStore
from tests.support.cursors import Run, around_statements
from tests.support.ear import Ear
from tests.support.schedules import ScheduleTable, grid
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
    table.shift("s", 0.5)
    done = ticker.tick(None)
    assert (done.fired, done.progress) == (0, False)
    assert done.outlook is not None
    assert done.outlook.soonest is not None
    assert 0 < done.outlook.soonest - done.outlook.now <= 500_000


@pytest.mark.parametrize(
    ("catch_up", "missed", "fires", "skipped"),
    [
        ("all", 1, 1, 0), ("all", 10, 10, 0), ("all", 30, 30, 0), ("all", 64, 64, 0),
        ("all", 65, 64, 1), ("all", 10_000, 64, 9_936),
        ("latest", 1, 1, 0), ("latest", 10, 1, 9), ("latest", 10_000, 1, 9_999),
    ],
)  # fmt: skip
def test_missed_boundaries_are_made_good_up_to_the_cap(
    *,
    store: PostgresStore,
    table: ScheduleTable,
    ticker: Ticker,
    caplog: pytest.LogCaptureFixture,
    catch_up: Any,
    missed: int,
    fires: int,
    skipped: int,
) -> None:
    """Field cases B18 and B42: the count, the order, the phase and what is told."""
    store.schedule("s", "@every 60s", "q", 1, catch_up=catch_up)
    first = table.shift("s", -60 * (missed - 1) - 30)
    with caplog.at_level(logging.WARNING, "alkstore"):
        done = ticker.tick(None)
    assert (done.fired, done.skipped) == (fires, skipped)
    boundaries = grid(first, MINUTE, missed)
    assert table.fired("s") == (boundaries[:64] if catch_up == "all" else boundaries[-1:])
    schedule = store.get_schedule("s")
    assert schedule is not None
    assert schedule.next_fire_at == first + missed * MINUTE
    assert schedule.skipped == skipped
    assert (f"skipped {skipped} boundaries" in caplog.text) == (skipped > 0)
    assert ticker.tick(None).fired == 0, "what was skipped never fires later"


def test_the_count_of_skipped_boundaries_adds_up(
    store: PostgresStore, table: ScheduleTable, ticker: Ticker
) -> None:
    store.schedule("s", "@every 60s", "q", 1, catch_up="latest")
    for _ in range(3):
        table.shift("s", -150)
        ticker.tick(None)
    schedule = store.get_schedule("s")
    assert schedule is not None
    assert schedule.skipped == 6


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


class Counter:
    """Counts the statements that go to the server."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.count = 0

        def counting(run: Run) -> Run:
            def running(*args: Any, **options: Any) -> None:
                self.count += 1
                run(*args, **options)

            return running

        around_statements(patch, counting)


def many(table: ScheduleTable, count: int, seconds: float = 1.0) -> None:
    """Register so many schedules that are due for so many seconds."""
    table.run(
        "INSERT INTO {schedules} (name, spec, queue, payload, priority, catch_up, next_fire_at,"
        " created_at, updated_at) SELECT 's' || n, '@every 1h', 'q' || n %% 10, '1', 0, 'all',"
        " now() - make_interval(secs => %s), now(), now() FROM generate_series(1, %s) n",
        seconds,
        count,
    )


@pytest.mark.parametrize(
    ("count", "most"), [(1, 1), (FIRST_ROWS - 1, 1), (10_000, 10_000 // FIRST_ROWS + 1)]
)
def test_any_number_of_due_schedules_is_a_few_statements_a_slice(
    table: ScheduleTable,
    ticker: Ticker,
    monkeypatch: pytest.MonkeyPatch,
    count: int,
    most: int,
) -> None:
    """Field case B35: every one once, in a bounded number of slices."""
    many(table, count)
    statements = Counter(monkeypatch)
    monkeypatch.setattr(
        SliceSize, "took", lambda *_, **__: None
    )  # as on a server of middling speed
    assert ticker.tick(None).fired == count
    assert statements.count <= 7 * most
    ledger = table.ledger()
    assert len(ledger) == count
    assert set(ledger.values()) == {1}


def test_a_tick_over_many_schedules_that_are_not_due_reads_only_the_index(
    table: ScheduleTable, schema: str
) -> None:
    many(table, 5_000, seconds=-3_600)
    table.run("ANALYZE {schedules}")
    plan = table.run(
        "EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) SELECT name FROM {schedules}"
        " WHERE paused IS NOT TRUE AND quarantine IS NULL AND next_fire_at <= statement_timestamp()"
        " ORDER BY next_fire_at LIMIT 500 FOR UPDATE SKIP LOCKED"
    ).fetchone()
    assert plan is not None
    assert "schedules_due" in str(plan[0])
    assert plan[0][0]["Plan"]["Shared Hit Blocks"] < 10


def test_slices_go_on_where_the_one_before_ended_and_leave_nobody_out(
    table: ScheduleTable, ticker: Ticker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Many share a boundary, some have many fires, one is damaged: all in one tick."""
    monkeypatch.setattr(ticker._size, "rows", 7)
    monkeypatch.setattr(SliceSize, "took", lambda *_, **__: None)
    monkeypatch.setattr(tick_module, "MOST_FIRES", 100)
    many(table, 40)
    table.run(
        "UPDATE {schedules} SET spec = '@every 60s', next_fire_at = now() - interval '2 h'"
        " WHERE name LIKE 's1%%'"
    )
    table.run("UPDATE {schedules} SET spec = 'banana' WHERE name IN ('s2', 's12')")
    done = ticker.tick(None)
    assert (done.fired, done.quarantined) == (28 + 10 * 64, 2)
    assert set(table.ledger().values()) == {1}
    assert ticker.tick(None).progress is False


def test_a_tick_with_fires_sends_one_wake_per_queue_and_one_without_sends_none(
    store: PostgresStore, table: ScheduleTable, ticker: Ticker, ear: Ear
) -> None:
    for name, queue in (("a", "q1"), ("b", "q2"), ("c", "q1"), ("d", "q3")):
        store.schedule(name, "@every 60s", queue, 1)
    for name in ("a", "b", "c"):
        table.shift(name, -130)
    ear.heard()
    assert ticker.tick(None).fired == 9
    assert sorted(ear.heard()) == ["q1", "q2"]
    assert ticker.tick(None).fired == 0
    assert ear.heard() == []


def test_wakes_are_silent_before_the_commit_and_gone_after_a_rollback(
    store: PostgresStore,
    table: ScheduleTable,
    ticker: Ticker,
    ear: Ear,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    store.schedule("s", "@every 1h", "q", 1)
    table.shift("s", -1)
    finish = Ticker._finish
    ear.heard()
    silent: list[list[str]] = []

    def finishing(self: Ticker, *args: Any, **options: Any) -> Any:
        outlook = finish(self, *args, **options)
        silent.append(ear.heard())  # the wake is sent, the transaction still open
        if len(silent) == 1:
            raise KeyError("roll back")
        return outlook

    monkeypatch.setattr(Ticker, "_finish", finishing)
    with pytest.raises(KeyError):
        ticker.tick(None)
    assert ear.heard() == []
    assert table.jobs() == 0
    assert ticker.tick(None).fired == 1
    assert ear.heard() == ["q"]
    assert silent == [[], []]


class _FullQueueError(psycopg.errors.ProgramLimitExceeded):
    sqlstate = "54000"


def test_a_full_notification_queue_never_fails_a_tick(
    store: PostgresStore,
    table: ScheduleTable,
    ticker: Ticker,
    ear: Ear,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The server tells it at the commit; the slice is then repeated without wakes."""
    store.schedule("s", "@every 1h", "q", 1)
    table.shift("s", -1)
    finish = Ticker._finish

    def finishing(self: Ticker, session: Any, made: Any, *, wakes: bool) -> Any:
        outlook = finish(self, session, made, wakes=wakes)
        if wakes:
            raise _FullQueueError("too many notifications in the NOTIFY queue")
        return outlook

    monkeypatch.setattr(Ticker, "_finish", finishing)
    ear.heard()
    assert ticker.tick(None).fired == 1
    assert ear.heard() == []
    assert table.jobs() == 1


def test_a_wake_that_the_server_refuses_never_fails_a_tick(
    store: PostgresStore, table: ScheduleTable, ticker: Ticker, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.schedule("s", "@every 1h", "q", 1)
    table.shift("s", -1)
    monkeypatch.setattr(ticker, "_wakes_and_outlook", b"SELECT 1 / 0")
    assert ticker.tick(None).fired == 1
    schedule = store.get_schedule("s")
    assert schedule is not None
    assert schedule.quarantine is None


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
    lease = leases.acquire(SCHEDULER_LOCK, "me", 0.2)
    assert isinstance(lease, Lease)
    answers = []
    finish = Ticker._finish

    def finishing(self: Ticker, *args: Any, **options: Any) -> Any:
        outlook = finish(self, *args, **options)
        table.run("SELECT pg_sleep(0.25)")
        answers.append(leases.acquire(SCHEDULER_LOCK, "other", 10.0))
        return outlook

    monkeypatch.setattr(Ticker, "_finish", finishing)
    assert ticker.tick(lease).fired == 1
    assert isinstance(answers[0], float)
    assert isinstance(leases.acquire(SCHEDULER_LOCK, "other", 10.0), Lease)


def test_a_slow_server_gets_smaller_slices(
    open_store: Callable[..., PostgresStore], table: ScheduleTable, schema: str
) -> None:
    """Field case B120: 10 ms an enqueue, a lease of 2 s, and every slice ends in time."""
    parts = open_store()._parts
    ticker = Ticker(parts.database, parts.leases, parts.sender.channel, ttl=2.0)
    many(table, 150)
    table.run(
        f'CREATE FUNCTION "{schema}".slow() RETURNS trigger LANGUAGE plpgsql AS'
        " $$ BEGIN PERFORM pg_sleep(0.01); RETURN NEW; END $$"
    )
    table.run(
        "CREATE TRIGGER slow BEFORE INSERT ON {jobs}"
        f' FOR EACH ROW EXECUTE FUNCTION "{schema}".slow()'
    )
    fired = 0
    failures: list[str | None] = []
    while fired < 150:
        try:
            fired += ticker.slice(None).fired
        except DatabaseError as error:
            failures.append(error.sqlstate)
    assert set(failures) == {"57014"}
    assert len(failures) < 10
    assert set(table.ledger().values()) == {1}


def test_a_server_far_away_gets_no_smaller_slices(
    table: ScheduleTable, ticker: Ticker, ear: Ear, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What each statement costs on its way is not the rows': few slices, few wakes."""
    spent = [0.0]

    def far(run: Run) -> Run:
        def running(*args: Any, **options: Any) -> None:
            spent[0] += 0.04  # on the ticker's clock, whatever this machine takes
            run(*args, **options)

        return running

    many(table, 2_500)
    around_statements(monkeypatch, far)
    monkeypatch.setattr(tick_module, "time", SimpleNamespace(monotonic=lambda: spent[0]))
    ear.heard()
    assert ticker.tick(None).fired == 2_500
    assert max(Counted(ear.heard()).values()) <= 2_500 // FIRST_ROWS


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


def test_a_large_tick_logs_a_bounded_number_of_lines_about_skipped_boundaries(
    table: ScheduleTable, ticker: Ticker, caplog: pytest.LogCaptureFixture
) -> None:
    many(table, 400, seconds=7_300)
    table.run("UPDATE {schedules} SET catch_up = 'latest'")
    with caplog.at_level(logging.WARNING, "alkstore"):
        assert ticker.tick(None).skipped == 800
    assert len(caplog.records) == slices._LOGGED + 1
    assert "380 further" in caplog.text


def test_firing_some_of_many_schedules_reads_only_their_rows(
    table: ScheduleTable, schema: str
) -> None:
    """Field case B112: however many fire, the table is not read from end to end."""
    many(table, 20_000)
    table.run("VACUUM ANALYZE {schedules}")
    fire = Statements("alkstore_postgres.scheduler", "tick.sql", schema)["fire"]
    session = Session(table._connection)
    rows = session.fetch_raw(b"SELECT ctid, next_fire_at FROM %s.schedules" % quoted(schema))
    for count in (1, 2_000, 15_000):
        moments = MomentArray([moment for _, moment in rows[:count]])
        values = {
            "owners": LongArray(range(1, count + 1)), "boundaries": moments, "max_attempts": 3,
            "visibility_timeout": 300.0, "base_backoff": 60.0,
            "places": TidArray([place for place, _ in rows[:count]]), "next_fire_ats": moments,
            "last_fire_ats": moments, "skipped": LongArray([0] * count),
        }  # fmt: skip
        plan = "\n".join(row[0] for row in session.fetch_all(b"EXPLAIN " + fire, values))
        assert plan.count("Tid Scan on schedules") == 1
        assert "Seq Scan" not in plan


def quoted(schema: str) -> bytes:
    return b'"%s"' % schema.encode()


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
