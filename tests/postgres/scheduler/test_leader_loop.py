"""The leader loop: its lease, its sleep, its end (contract section 7)."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from functools import partial
from typing import Any

import psycopg
import pytest

from alkstore import LeadershipLost, SchemaError, StopToken, StoreClosed
from alkstore.errors import DatabaseError
from alkstore.names import SCHEDULER_LOCK
from alkstore_postgres.database.database import Database
from alkstore_postgres.lock.leases import Lease, Leases
from alkstore_postgres.scheduler import attendant, failures, held_lease, outlook, term, tick
from alkstore_postgres.scheduler.tick import Ticker
from alkstore_postgres.store import PostgresStore
from tests.support.cursors import Run, around_statements
from tests.support.leading import Leading, owner_of
from tests.support.schedules import ScheduleTable, grid, holes
from tests.support.waiting import wait_until

SECOND = timedelta(seconds=1)
QUICK = 0.1
"""Within how many seconds a stop is obeyed."""
SLACK = 0.05
"""What a busy test machine may add."""


def waiting_sessions(table: ScheduleTable, schema: str) -> set[int]:
    """Return the sessions that wait for a lock of the store's; seen outside a transaction."""
    rows = table.run(
        "SELECT pid FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
        " AND position(%s in query) > 0",
        schema,
    )
    return {pid for (pid,) in rows}


def late(store: PostgresStore, name: str) -> list[timedelta]:
    """Return how late each fire of *name* was stored, on the store clock."""
    jobs = store.queue(name).claim("w", limit=1_000)
    return [job.enqueued_at - job.scheduled_for for job in jobs if job.scheduled_for is not None]


def test_a_leader_fires_each_boundary_in_time_and_never_early(
    store: PostgresStore, table: ScheduleTable
) -> None:
    store.schedule("s", "@every 1s", "s", 1)
    with Leading(store):
        wait_until(lambda: len(table.fired("s")) >= 3)
    fired = table.fired("s")
    assert fired == grid(fired[0], SECOND, len(fired))
    delays = late(store, "s")
    assert min(delays) >= timedelta(0)
    assert max(delays) < timedelta(seconds=1)


def test_the_loop_runs_through_the_store(store: PostgresStore, table: ScheduleTable) -> None:
    store.schedule("s", "@every 1h", "s", 1)
    table.shift("s", -1)
    stop = StopToken()
    thread = threading.Thread(target=store.run_schedules, args=(stop,))
    thread.start()
    wait_until(lambda: table.jobs() == 1)
    stop.cancel()
    thread.join(5)
    assert not thread.is_alive()
    assert owner_of(table) is None


def test_leadership_is_refused_at_once_while_another_holds_it(
    open_store: Callable[..., PostgresStore], store: PostgresStore, table: ScheduleTable
) -> None:
    """Field case B119: whoever is refused leaves the lease as it is, fifty times."""
    lease = store._parts.leases.acquire(SCHEDULER_LOCK, "another", 30.0)
    assert isinstance(lease, Lease)
    before = table.run("SELECT xmin, * FROM {locks}").fetchall()
    other = open_store()
    for _ in range(50):
        began = time.monotonic()
        refused = Leading(other).start()
        error = refused.outcome()
        assert isinstance(error, LeadershipLost)
        assert error.retry_after is not None
        assert 20 < error.retry_after <= 30
        assert time.monotonic() - began < 1
    assert table.run("SELECT xmin, * FROM {locks}").fetchall() == before


def test_a_stop_ends_the_sleep_at_once_and_gives_the_lease_back(
    store: PostgresStore, table: ScheduleTable
) -> None:
    """Field case B22."""
    store.schedule("s", "@every 36500d", "q", 1)
    for _ in range(5):
        leading = Leading(store).lead()
        assert owner_of(table) is not None
        assert leading.end() < QUICK + SLACK
        assert leading.error is None
        assert owner_of(table) is None


def test_a_stop_before_the_start_leads_nothing(store: PostgresStore, table: ScheduleTable) -> None:
    leading = Leading(store)
    leading.stop.cancel()
    assert leading.start().outcome() is None
    assert owner_of(table) is None


def test_a_stop_is_obeyed_while_a_call_is_stuck_in_the_server(
    store: PostgresStore, table: ScheduleTable, conninfo: str, schema: str
) -> None:
    leading = Leading(store, ttl=1.0).lead()
    with psycopg.connect(conninfo) as other:
        ScheduleTable(other, schema).run("LOCK TABLE {locks} IN ACCESS EXCLUSIVE MODE")
        wait_until(lambda: waiting_sessions(table, schema))
        assert leading.end() < QUICK + SLACK
    assert leading.error is None
    wait_until(lambda: owner_of(table) is None)


def test_a_stop_is_obeyed_while_no_connection_can_be_had(
    store: PostgresStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = threading.Event()
    reached = threading.Event()
    connection = Database.connection

    def stuck(database: Database) -> Any:
        if threading.current_thread().name == "alkstore leader":
            reached.set()
            gate.wait(30)
        return connection(database)

    leading = Leading(store, ttl=1.0).lead()
    monkeypatch.setattr(Database, "connection", stuck)
    assert reached.wait(10)
    assert leading.end() < QUICK + SLACK
    gate.set()


def test_a_call_that_lasts_too_long_is_cut_and_the_loop_goes_on(
    store: PostgresStore, table: ScheduleTable, conninfo: str, schema: str
) -> None:
    store.schedule("s", "@every 1h", "q", 1)
    with Leading(store, ttl=1.0) as leading:
        with psycopg.connect(conninfo) as other:
            ScheduleTable(other, schema).run("LOCK TABLE {locks} IN ACCESS EXCLUSIVE MODE")
            wait_until(lambda: waiting_sessions(table, schema))
            first = waiting_sessions(table, schema)
            # Another connection than the first one asks by now: that one was given up.
            wait_until(lambda: waiting_sessions(table, schema) - first)
        table.shift("s", -1)
        wait_until(lambda: table.jobs() == 1)
        assert leading.running


def test_a_call_that_was_cut_waits_on_the_server_no_more(
    store: PostgresStore, table: ScheduleTable, conninfo: str, schema: str
) -> None:
    """Else there is one more waiting session with each call, for as long as the lock is held."""
    store.schedule("s", "@every 1h", "q", 1)
    with Leading(store, ttl=1.0) as leading:
        with psycopg.connect(conninfo) as other:
            ScheduleTable(other, schema).run("LOCK TABLE {schedules} IN ACCESS EXCLUSIVE MODE")
            seen: list[int] = []

            def waiting() -> set[int]:
                pids = waiting_sessions(table, schema)
                seen.extend(pids.difference(seen))
                return pids

            wait_until(lambda: waiting() and len(seen) >= 3, timeout=30)
            wait_until(lambda: waiting().isdisjoint(seen[:2]))
        table.shift("s", -1)
        wait_until(lambda: table.jobs() == 1)
        assert leading.running


def test_a_lost_lease_ends_the_loop_before_any_tick(
    store: PostgresStore, table: ScheduleTable
) -> None:
    """Field case B01: another took it while the leader was asleep."""
    store.schedule("s", "@every 1h", "q", 1)
    leading = Leading(store, ttl=1.0).lead()
    table.run(
        "UPDATE {locks} SET owner = 'another', token = token + 1,"
        " expires_at = now() + interval '40 s'"
    )
    row = table.run("SELECT xmin, * FROM {locks}").fetchall()
    table.shift("s", -1)
    error = leading.outcome()
    assert isinstance(error, LeadershipLost)
    assert error.retry_after is not None
    assert 30 < error.retry_after <= 40
    assert table.jobs() == 0
    assert table.run("SELECT xmin, * FROM {locks}").fetchall() == row, "field case B04"


def test_a_deleted_lease_ends_the_loop_and_can_be_taken_again(
    store: PostgresStore, table: ScheduleTable
) -> None:
    """Field case B06."""
    leading = Leading(store, ttl=1.0).lead()
    table.run("DELETE FROM {locks}")
    error = leading.outcome()
    assert isinstance(error, LeadershipLost)
    assert error.retry_after == 0.0
    with Leading(store, ttl=1.0):
        assert owner_of(table) is not None


@pytest.mark.parametrize("end", ["'infinity'", "NULL", "now() - interval '1 s'"])
def test_a_marker_without_an_end_keeps_nobody_from_leading(
    store: PostgresStore, table: ScheduleTable, end: str
) -> None:
    """Field case B122."""
    assert isinstance(store._parts.leases.acquire(SCHEDULER_LOCK, "dead", 30.0), Lease)
    table.run(f"UPDATE {{locks}} SET expires_at = {end}")
    with Leading(store):
        assert owner_of(table) != "dead"


def test_a_lease_that_lapsed_but_that_nobody_took_is_kept(
    store: PostgresStore, table: ScheduleTable
) -> None:
    store.schedule("s", "@every 1h", "q", 1)
    with Leading(store, ttl=1.0) as leading:
        table.run("UPDATE {locks} SET expires_at = now() - interval '1 h'")
        table.shift("s", -1)
        wait_until(lambda: table.jobs() == 1)
        assert leading.running


def test_failing_renewals_never_count_as_leading(
    store: PostgresStore, table: ScheduleTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Field case B01: an error means "not leader", until a renewal succeeds."""
    store.schedule("s", "@every 1h", "q", 1)
    renew, failing, calls = Leases.renew_and_read, threading.Event(), [0]

    def renewing(self: Leases, *args: Any) -> Any:
        if failing.is_set():
            calls[0] += 1
            message = "injected"
            raise psycopg.OperationalError(message)
        return renew(self, *args)

    monkeypatch.setattr(Leases, "renew_and_read", renewing)
    with Leading(store, ttl=1.0) as leading:
        failing.set()
        table.shift("s", -1)
        wait_until(lambda: calls[0] >= 4)
        assert table.jobs() == 0
        failing.clear()
        wait_until(lambda: table.jobs() == 1)
        assert leading.running


def test_nothing_fires_until_the_lease_is_really_held(
    store: PostgresStore, table: ScheduleTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Field case B03: taking the lock fails at first."""
    store.schedule("s", "@every 1h", "q", 1)
    table.shift("s", -1)
    acquire, calls = Leases.acquire, [0]

    def acquiring(self: Leases, *args: Any) -> Any:
        calls[0] += 1
        if calls[0] <= 3:
            assert table.jobs() == 0
            message = "injected"
            raise DatabaseError(message, retryable=True)
        return acquire(self, *args)

    monkeypatch.setattr(Leases, "acquire", acquiring)
    with Leading(store):
        wait_until(lambda: table.jobs() == 1)
    assert calls[0] == 4


def test_a_change_from_elsewhere_is_noticed_with_its_wake(
    open_store: Callable[..., PostgresStore], store: PostgresStore, table: ScheduleTable
) -> None:
    """Field cases B12 to B14: registered, changed, resumed, from another store."""
    other = open_store()
    store.schedule("far", "@every 6h", "q", 1)
    with Leading(store):
        wait_until(lambda: store._parts.hub.state == "listening")
        for name, spec in (("a", "@every 1s"), ("far", "@every 1s")):
            made = other.schedule(name, spec, name, 1)
            wait_until(partial(table.fired, name))
            assert table.fired(name)[0] == made.next_fire_at
            other.pause(name)
        first = table.shift("a", 0.2)
        assert other.resume("a")
        wait_until(lambda: first in table.fired("a"))
    assert max(late(store, "a") + late(store, "far")) < timedelta(seconds=0.5)


def test_a_change_without_a_wake_is_noticed_by_the_next_renewal(
    store: PostgresStore, table: ScheduleTable
) -> None:
    """Field case B13: no notification, and the sleep has an upper bound."""
    store.schedule("s", "@every 6h", "s", 1)
    with Leading(store):
        table.shift("s", 0)
        wait_until(lambda: table.jobs() == 1)
    assert late(store, "s")[0] < timedelta(seconds=2.5)


def test_an_interval_that_is_edited_by_hand_is_followed(
    store: PostgresStore, table: ScheduleTable
) -> None:
    """Field case B13: nothing remembers the old interval."""
    store.schedule("s", "@every 1h", "s", 1)
    with Leading(store):
        table.set("s", "spec", "'@every 1s'")
        first = table.shift("s", 0.1)
        wait_until(lambda: len(table.fired("s")) >= 3)
    fired = table.fired("s")
    assert fired == grid(first, SECOND, len(fired))


def test_registering_again_under_a_leader_never_moves_the_boundaries(
    open_store: Callable[..., PostgresStore], store: PostgresStore, table: ScheduleTable
) -> None:
    """Field case B09: an interval that is longer than the time between deploys."""
    other = open_store()
    first = store.schedule("s", "@every 2s", "s", 1).next_fire_at
    assert first is not None
    with Leading(store):
        while not table.fired("s"):
            other.schedule("s", "@every 2s", "s", 1)
    assert table.fired("s") == [first]


class Clock:
    """A stand-in for the module `time` with a monotonic clock of the test's choice."""

    def __init__(self, read: Callable[[], float]) -> None:
        self.monotonic = read


def standing() -> float:
    return 1_000.0


def racing(clock: Iterator[int]) -> Callable[[], float]:
    return lambda: float(next(clock)) * 7_200.0


def jumping() -> Callable[[], float]:
    """Two hours forth and back at each reading."""
    state = [0]

    def read() -> float:
        state[0] += 1
        return time.monotonic() + (7_200.0 if state[0] % 2 else -7_200.0)

    return read


@pytest.mark.parametrize("kind", ["standing", "racing", "jumping"])
def test_no_clock_makes_the_loop_spin_or_fire_wrongly(
    *,
    store: PostgresStore,
    table: ScheduleTable,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    kind: str,
) -> None:
    """Field case B41: the process's clocks are wrong, the store clock decides."""
    clocks = {"standing": standing, "racing": racing(iter(range(10**9))), "jumping": jumping()}
    for module in (failures, held_lease, outlook, term, tick):
        monkeypatch.setattr(module, "time", Clock(clocks[kind]))
    store.schedule("s", "@every 1s", "s", 1)
    store.schedule("far", "@every 1h", "s", 1)
    statements = [0]

    def counting(run: Run) -> Run:
        def running(*args: Any, **options: Any) -> None:
            statements[0] += threading.current_thread().name == "alkstore leader"
            run(*args, **options)

        return running

    around_statements(monkeypatch, counting)
    began = time.monotonic()
    with Leading(store):
        wait_until(lambda: len(table.fired("s")) >= 3)
    elapsed = time.monotonic() - began
    turns_a_second = 20
    a_turn = 7
    assert 0 < statements[0] <= (elapsed + 1) * turns_a_second * a_turn
    assert len(caplog.records) < 20
    ledger = table.ledger()
    assert set(ledger.values()) == {1}
    assert not holes(ledger, "s", SECOND)
    assert min(late(store, "s")) >= timedelta(0)


def test_wall_clocks_that_are_wrong_by_minutes_change_nothing(
    store: PostgresStore, table: ScheduleTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Field case B29."""
    wall, seen = time.time, list[int]()
    store.schedule("s", "@every 1s", "s", 1)
    for error in (90.0, -90.0):
        monkeypatch.setattr(time, "time", lambda error=error: wall() + error)
        seen.append(len(table.fired("s")))
        with Leading(store):
            wait_until(lambda: len(table.fired("s")) > seen[-1])
    fired = table.fired("s")
    assert fired == grid(fired[0], SECOND, len(fired))
    assert min(late(store, "s")) >= timedelta(0)


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
    assert renewals[0] < 20 * 1.5 + 15


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
        seen = len(table.fired("free"))
        wait_until(lambda: len(table.fired("free")) >= seen + 3)
        assert slices[0] < 60
        other.rollback()
    assert max(late(store, "free")) < timedelta(seconds=0.5)


def test_every_error_at_every_statement_of_a_turn_is_survived(
    store: PostgresStore, table: ScheduleTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Field case B08: logged, rested upon, and the next good turn works."""
    store.schedule("s", "@every 1h", "q", 1)
    errors: list[BaseException] = [
        psycopg.OperationalError("injected"),
        KeyError("injected"),
        MemoryError("injected"),
    ]
    planned: list[tuple[int, BaseException]] = []
    count, expected = [0], [0]

    def faulty(run: Run) -> Run:
        def running(*args: Any, **options: Any) -> None:
            if planned and threading.current_thread().name == "alkstore leader":
                count[0] += 1
                if count[0] == planned[0][0]:
                    raise planned.pop(0)[1]
            run(*args, **options)

        return running

    around_statements(monkeypatch, faulty)
    monkeypatch.setattr(failures, "pause", lambda _failures: 0.01)
    with Leading(store) as leading:
        for number in range(1, 7):
            for error in errors:
                expected[0] = table.jobs() + 1
                count[0] = 0
                planned.append((number, error))
                table.shift("s", -1)
                store._parts.hub.wake_here(SCHEDULER_LOCK)
                wait_until(lambda: table.jobs() == expected[0] and not planned)
        assert leading.running
    assert set(table.ledger().values()) == {1}


@pytest.mark.parametrize("damage", ["spec = 'banana'", "next_fire_at = NULL", "paused = NULL"])
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
    slices = [0]
    one = Ticker.slice

    def counting(self: Ticker, *args: Any, **options: Any) -> Any:
        slices[0] += 1
        return one(self, *args, **options)

    with Leading(store, ttl=2.0):
        table.run("UPDATE {schedules} SET next_fire_at = now() WHERE name = 'bad'")
        table.run(f"UPDATE {{schedules}} SET {damage} WHERE name = 'bad'")
        wait_until(lambda: table.value("bad", "quarantine"))
        monkeypatch.setattr(Ticker, "slice", counting)
        seen = len(table.fired("good"))
        wait_until(lambda: len(table.fired("good")) >= seen + 3)
    assert slices[0] <= 5
    assert caplog.text.count("is quarantined") == 1
    assert max(late(store, "good")) < timedelta(seconds=0.5)


def test_a_callback_that_raises_does_not_end_the_loop(
    store: PostgresStore, table: ScheduleTable
) -> None:
    store.schedule("s", "@every 1h", "q", 1)
    calls = [0]

    def callback(until: float) -> None:
        assert until > time.monotonic()
        calls[0] += 1
        if calls[0] <= 2:
            raise ZeroDivisionError

    leading = Leading(store)
    leading.led = callback  # type: ignore[method-assign]
    leading.start()
    wait_until(lambda: calls[0] >= 3)
    table.shift("s", -1)
    store._parts.hub.wake_here(SCHEDULER_LOCK)
    wait_until(lambda: table.jobs() == 1)
    leading.end()
    assert leading.error is None
    assert [type(one) for one in leading.failures] == [ZeroDivisionError] * 2


def test_a_leader_whose_ticks_keep_failing_steps_down(
    store: PostgresStore, table: ScheduleTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Field case B21: no lease is renewed for long while nothing is fired."""
    store.schedule("s", "@every 1h", "q", 1)
    table.shift("s", -1)

    def failing(*_args: Any, **_options: Any) -> Any:
        message = "injected"
        raise DatabaseError(message, sqlstate="XX000")

    monkeypatch.setattr(Ticker, "slice", failing)
    error = Leading(store, ttl=0.5).start().outcome()
    assert isinstance(error, LeadershipLost)
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
    assert owner_of(table) is None


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


def test_two_loops_of_one_process_have_different_owners(
    open_store: Callable[..., PostgresStore], store: PostgresStore, table: ScheduleTable
) -> None:
    """Field case B02: neither host nor pid makes an owner."""
    owners = set()
    for one in (store, open_store(), store):
        with Leading(one):
            owners.add(owner_of(table))
    assert len(owners) == 3
