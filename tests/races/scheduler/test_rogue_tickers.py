"""Two tickers at once, neither with a lease, fire each boundary once (field cases B44, B120)."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import timedelta
from functools import partial
from typing import Any

import psycopg
import pytest

from alkstore_postgres.scheduler.tick import Ticker
from alkstore_postgres.store import PostgresStore
from tests.support.schedules import ScheduleTable, grid

MINUTE = timedelta(minutes=1)


def ticker_of(store: PostgresStore) -> Ticker:
    parts = store._parts
    return Ticker(parts.database, parts.leases, parts.sender.channel, ttl=10.0)


def together(works: list[Callable[[], Any]]) -> list[Any]:
    """Run all of *works* at the same moment; return what they returned."""
    barrier = threading.Barrier(len(works))
    results: list[Any] = []

    def run(work: Callable[[], Any]) -> None:
        barrier.wait(10)
        results.append(work())

    threads = [threading.Thread(target=run, args=(work,)) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert len(results) == len(works)
    return results


def test_tickers_that_start_together_share_the_boundaries(
    open_store: Callable[..., PostgresStore], store: PostgresStore, table: ScheduleTable
) -> None:
    names = [f"s{number}" for number in range(40)]
    first = {}
    for name in names:
        store.schedule(name, "@every 60s", "q", 1)
    tickers = [ticker_of(open_store()) for _ in range(4)]
    for _round in range(10):
        table.run("DELETE FROM {jobs}")
        for name in names:
            first[name] = table.shift(name, -150)
        # A row that another ticker holds is left to it: the sum counts.
        done = together([partial(ticker.tick, None) for ticker in tickers])
        assert sum(slice_.fired for slice_ in done) == 3 * len(names)
        expected = {(name, at) for name in names for at in grid(first[name], MINUTE, 3)}
        assert set(table.ledger()) == expected
        assert set(table.ledger().values()) == {1}


def test_a_ticker_that_read_before_another_committed_fires_nothing_again(
    open_store: Callable[..., PostgresStore],
    store: PostgresStore,
    table: ScheduleTable,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One stands between locking and firing while the other ticks, and the other way round."""
    store.schedule("s", "@every 60s", "q", 1)
    first = table.shift("s", -150)
    slow, quick = ticker_of(open_store()), ticker_of(open_store())
    read = Ticker._read
    inside = []

    def reading(self: Ticker, *args: Any, **options: Any) -> Any:
        result = read(self, *args, **options)
        if self is slow:
            inside.append(quick.tick(None).fired)
        return result

    monkeypatch.setattr(Ticker, "_read", reading)
    assert slow.tick(None).fired == 3
    assert inside == [0]
    assert quick.tick(None).fired == 0
    assert table.fired("s") == grid(first, MINUTE, 3)


def test_a_row_that_was_advanced_between_the_look_and_the_lock_is_left(
    open_store: Callable[..., PostgresStore],
    store: PostgresStore,
    table: ScheduleTable,
    conninfo: str,
    schema: str,
) -> None:
    """The due statement waits on a trigger of the test while the other ticker commits."""
    store.schedule("s", "@every 60s", "q", 1)
    table.shift("s", -90)
    other_ticker = ticker_of(open_store())
    # The snapshot of a statement is taken before its first row is locked: while this
    # function sleeps inside the scan, the other ticker fires and commits.
    table.run(
        f'CREATE FUNCTION "{schema}".gate() RETURNS boolean LANGUAGE plpgsql VOLATILE AS $$ BEGIN'
        " PERFORM pg_advisory_xact_lock(4711); RETURN true; END $$"
    )
    with psycopg.connect(conninfo) as gate, psycopg.connect(conninfo) as late:
        gate.execute("SELECT pg_advisory_xact_lock(4711)")
        fetched: list[Any] = []

        def look() -> None:
            cursor = ScheduleTable(late, schema).run(
                f'SELECT name FROM {{schedules}} WHERE "{schema}".gate() AND paused IS NOT TRUE'
                " AND quarantine IS NULL AND next_fire_at <= statement_timestamp()"
                " ORDER BY next_fire_at FOR UPDATE SKIP LOCKED"
            )
            fetched.append(cursor.fetchall())

        thread = threading.Thread(target=look)
        thread.start()
        while not table.run("SELECT 1 FROM pg_locks WHERE objid = 4711 AND NOT granted").fetchone():
            pass
        assert other_ticker.tick(None).fired == 2
        gate.rollback()
        thread.join(10)
        late.rollback()
    assert fetched == [[]]
    assert set(table.ledger().values()) == {1}


def test_registrations_against_ticks_lose_and_double_nothing(
    open_store: Callable[..., PostgresStore], store: PostgresStore, table: ScheduleTable
) -> None:
    """Boots that register the same spec while a leader ticks: the grid stays one grid."""
    second = timedelta(seconds=1)
    store.schedule("s", "@every 1s", "q", 1)
    first = table.shift("s", -30)
    booting, ticking = open_store(), ticker_of(open_store())
    stop = threading.Event()

    boots: list[int] = []

    def boot() -> None:
        while not stop.is_set():
            spelling = f"@every {'0' * (len(boots) % 3)}1s"
            booting.schedule("s", spelling, "q", len(boots) % 5)
            boots.append(1)

    def tick() -> None:
        for _ in range(200):
            ticking.tick(None)
        stop.set()

    together([boot, tick])
    assert boots
    fired = table.fired("s")
    assert len(fired) >= 30
    assert fired == grid(first, second, len(fired))
