"""The scheduler's tick on many schedules."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import alkstore_postgres
from alkstore_postgres import PostgresStore
from alkstore_postgres.lock.leases import Lease
from alkstore_postgres.scheduler.tick import Ticker
from alkstore_postgres.wakes.channel import wake_channel
from bench.bench import Bench
from bench.cases import ours
from bench.figures import Kind, Metric
from bench.registry import scenario

_COPY = """
INSERT INTO alkstore.schedules (
    name, spec, queue, payload, priority, catch_up, next_fire_at, created_at, updated_at
)
SELECT 's' || n, '@every 1h', 'q' || mod(n, 10), '{"n":1}', 0, 'all',
       statement_timestamp() + %s::float8 * interval '1 second', statement_timestamp(),
       statement_timestamp()
FROM generate_series(1, %s::int) AS n
"""


_DUE = "paused IS NOT TRUE AND quarantine IS NULL AND next_fire_at <= statement_timestamp()"
_STORE = f"""
INSERT INTO alkstore.jobs (
    queue, payload, priority, run_at, max_attempts, visibility_timeout, base_backoff,
    schedule, scheduled_for, enqueued_at
)
SELECT queue, payload, priority, statement_timestamp(), 3, 300, 60, name, next_fire_at,
       statement_timestamp()
FROM alkstore.schedules WHERE {_DUE}
"""
_MOVE = f"""
UPDATE alkstore.schedules
SET last_fire_at = next_fire_at, next_fire_at = next_fire_at + interval '1 hour',
    updated_at = statement_timestamp()
WHERE {_DUE}
"""


@scenario("tick", "The tick")
def run(bench: Bench) -> None:
    """Fires a second of one tick over so many due schedules (10 queues, one boundary each),
    lease proved in each slice, from its call to its last commit. Raw: one ``INSERT ... SELECT`` and
    one ``UPDATE`` by hand on the same tables, in one transaction that locks all rows at once and
    knows that each has one boundary: an upper bound, not a scheduler. And milliseconds of a tick
    that finds nothing due, with 10 and with 10,000 schedules registered. The short run ticks over
    100,000 only.
    """  # noqa: D205 - shown in the report as it is
    for turn in range(bench.pick(1, 3)):
        for count in bench.pick((100_000,), (10_000, 100_000)):
            metric = Metric(f"tick, {count:,} due", "fires/s", baseline="raw")
            measures: tuple[tuple[str, Kind, Callable[[Bench, int], float]], ...] = (
                ("alkstore", "ours", due_seconds),
                ("raw", "raw", _by_hand),
            )
            for name, kind, measure in measures if turn % 2 == 0 else reversed(measures):
                bench.results.add("tick", metric, name, kind, count / measure(bench, count))
        for count in (10, 10_000):
            metric = Metric(f"tick, none of {count:,} due", "ms", "lower")
            took = _none_due(bench, count)
            bench.results.add("tick", metric, "alkstore", "ours", took * 1e3)


def _by_hand(bench: Bench, count: int) -> float:
    with (
        lend_store(bench, count, -0.5) as (_, url),
        bench.server.connect(url) as connection,
    ):
        began = time.monotonic()
        with connection.transaction():
            stored = connection.execute(_STORE).rowcount
            moved = connection.execute(_MOVE).rowcount
        took = time.monotonic() - began
    if not stored == moved == count:
        msg = f"{stored} jobs and {moved} moves of {count} schedules"
        raise RuntimeError(msg)
    return took


def due_seconds(bench: Bench, count: int) -> float:
    """Return how long a tick over *count* due schedules takes, in seconds."""
    with lend_store(bench, count, -0.5) as (store, url):
        ticker, lease = ticker_and_lease(store)
        began = time.monotonic()
        fired = ticker.tick(lease).fired
        took = time.monotonic() - began
        with bench.server.connect(url) as connection:
            stored = connection.execute("SELECT count(*) FROM alkstore.jobs").fetchall()[0][0]
    if not fired == stored == count:
        msg = f"{fired} fires and {stored} jobs of {count} schedules"
        raise RuntimeError(msg)
    return took


def _none_due(bench: Bench, count: int) -> float:
    with lend_store(bench, count, 3_600.0) as (store, _):
        ticker, lease = ticker_and_lease(store)
        times: list[float] = []
        for _ in range(120):
            began = time.monotonic()
            ticker.slice(lease, damaged=False)
            times.append(time.monotonic() - began)
        return statistics.median(times[20:])


@contextmanager
def lend_store(bench: Bench, count: int, due_in: float) -> Iterator[tuple[PostgresStore, str]]:
    """Lend a store with *count* schedules that are due in so many seconds."""
    with bench.lend(ours()) as (_, url), alkstore_postgres.open(url) as store:
        with bench.server.connect(url) as connection:
            connection.execute(_COPY, (due_in, count))
            connection.execute("VACUUM ANALYZE alkstore.schedules")
        bench.server.calm()
        yield store, url


def ticker_and_lease(store: PostgresStore) -> tuple[Ticker, Lease]:
    """Return what the leader loop ticks with, and its lease."""
    parts = store._parts  # noqa: SLF001 - a single tick has no public entry
    database = parts.database
    ticker = Ticker(database, parts.leases, wake_channel(database.schema), 10.0)
    lease = parts.leases.acquire("bench", "bench", 60.0)
    if not isinstance(lease, Lease):
        msg = "the lease is held by another"
        raise TypeError(msg)
    return ticker, lease
