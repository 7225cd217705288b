"""The scheduler's tick on many schedules."""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator
from contextlib import contextmanager

import alkstore_postgres
from alkstore_postgres import PostgresStore
from alkstore_postgres.lock.leases import Lease
from alkstore_postgres.scheduler.tick import Ticker
from alkstore_postgres.wakes.channel import wake_channel
from bench.bench import Bench
from bench.cases import ours
from bench.figures import Metric
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


@scenario("tick", "The tick")
def run(bench: Bench) -> None:
    """Fires a second of one tick over so many due schedules (10 queues, one boundary each),
    lease proved in each slice, from its call to its last commit; and milliseconds of a tick
    that finds nothing due, with 10 and with 10,000 schedules registered.
    """  # noqa: D205 - shown in the report as it is
    for _ in range(bench.pick(1, 3)):
        for count in (10_000, 100_000):
            metric = Metric(f"tick, {count:,} due", "fires/s")
            took = _due(bench, count)
            bench.results.add("tick", metric, "alkstore", "ours", count / took)
        for count in (10, 10_000):
            metric = Metric(f"tick, none of {count:,} due", "ms", "lower")
            took = _none_due(bench, count)
            bench.results.add("tick", metric, "alkstore", "ours", took * 1e3)


def _due(bench: Bench, count: int) -> float:
    with _store(bench, count, -0.5) as (store, url):
        ticker, lease = _ticker(store)
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
    with _store(bench, count, 3_600.0) as (store, _):
        ticker, lease = _ticker(store)
        times: list[float] = []
        for _ in range(120):
            began = time.monotonic()
            ticker.slice(lease, damaged=False)
            times.append(time.monotonic() - began)
        return statistics.median(times[20:])


@contextmanager
def _store(bench: Bench, count: int, due_in: float) -> Iterator[tuple[PostgresStore, str]]:
    """Lend a store with *count* schedules that are due in so many seconds."""
    with bench.lend(ours()) as (_, url), alkstore_postgres.open(url) as store:
        with bench.server.connect(url) as connection:
            connection.execute(_COPY, (due_in, count))
            connection.execute("VACUUM ANALYZE alkstore.schedules")
        bench.server.calm()
        yield store, url


def _ticker(store: PostgresStore) -> tuple[Ticker, Lease]:
    """Return what the leader loop ticks with, and its lease."""
    parts = store._parts  # noqa: SLF001 - a single tick has no public entry
    database = parts.database
    ticker = Ticker(database, parts.leases, wake_channel(database.schema), 10.0)
    lease = parts.leases.acquire("bench", "bench", 60.0)
    if not isinstance(lease, Lease):
        msg = "the lease is held by another"
        raise TypeError(msg)
    return ticker, lease
