"""What jobs that are long done leave behind."""

from __future__ import annotations

from functools import partial

import alkstore_postgres
from alkstore_postgres import PostgresStore
from bench import rows
from bench.bench import Bench
from bench.cases import ours
from bench.counting import Question, counting
from bench.registry import scenario
from bench.timebox import Budget

_CHUNK = 10_000
_WHAT = "jobs done before"
_QUESTIONS = {
    number: Question("scale-history", f"History: {number} at a time", _WHAT) for number in (1, 100)
}
_SIZE = """
SELECT (pg_table_size('alkstore.jobs') + pg_indexes_size('alkstore.jobs')) / 1e6::float8
"""


@scenario("scale-history", "Scale: history", full_only=True, group="scale")
def run(bench: Bench) -> None:
    """After so many jobs that were enqueued, claimed and acked, 10,000 at a time, with the
    server's own autovacuum and nothing else: pages touched and milliseconds of an enqueue, of a
    claim of 1 with its ack, and of a claim of 100; the same after a vacuum by hand; and the size
    of the table with its indexes.
    """  # noqa: D205 - shown in the report as it is
    sizes = bench.pick((0, 20_000, 100_000), (0, 10_000, 100_000, 1_000_000))
    budget = Budget(bench.pick(50.0, 240.0))
    with bench.lend(ours()) as (_, url), alkstore_postgres.open(url) as store:
        there = 0
        for size in sizes:
            for done in range(there, size, _CHUNK):
                if not budget.allows(_CHUNK / 2_000):
                    bench.fail("scale-history", f"{size:,} jobs", f"stopped after {done:,}")
                    return
                _pass(store, _CHUNK)
            there = size
            _measure(bench, store, url, size, "claim and ack")
        with bench.server.connect(url) as connection:
            rows.settle(connection)
        _measure(bench, store, url, there, "claim and ack, after a vacuum")


def _pass(store: PostgresStore, count: int) -> None:
    queue = store.queue("bench")
    queue.enqueue_many(range(count))
    while jobs := queue.claim("bench", 500):
        queue.ack_many(jobs)


def _measure(bench: Bench, store: PostgresStore, url: str, size: int, name: str) -> None:
    queue = store.queue("bench")

    def claim_and_ack(limit: int) -> None:
        queue.ack_many(queue.claim("bench", limit))

    with counting(bench.server, url) as counter:
        queue.enqueue_many(range(4_000))
        for number, question in _QUESTIONS.items():
            cost = counter.cost(partial(claim_and_ack, number), 30)
            question.note(bench.results, name, size, cost)
        cost = counter.cost(partial(queue.enqueue, 1), 30)
        _QUESTIONS[1].note(bench.results, "enqueue", size, cost)
    while jobs := queue.claim("bench", 500):
        queue.ack_many(jobs)
    with bench.server.connect(url) as connection:
        megabytes = float(connection.execute(_SIZE).fetchall()[0][0])
    curve = bench.results.curve("scale-history", "History: size of the jobs table", _WHAT, "MB")
    curve.add("table and indexes", size, megabytes)
