"""How the cost of a claim grows with what lies beside."""

from __future__ import annotations

import time
from functools import partial

import alkstore_postgres
from bench import rows
from bench.bench import Bench
from bench.cases import ours
from bench.counting import Question, counting
from bench.registry import scenario
from bench.timebox import Budget

_KINDS: tuple[rows.Kind, ...] = ("waiting", "delayed", "dead")
_QUESTIONS = {
    limit: Question("scale-backlog", f"Backlog: a claim of {limit}", "rows beside")
    for limit in (1, 100)
}
_TIMES = 30


@scenario("scale-backlog", "Scale: claims beside a backlog", full_only=True, group="scale")
def run(bench: Bench) -> None:
    """Pages touched and milliseconds of one claim of 1 and of 100 jobs in a queue, beside so
    many rows: jobs that are ready as well, jobs delayed by a day at a higher priority, dead
    letters. Claims are committed; after the load the tables and their indexes were vacuumed.
    """  # noqa: D205 - shown in the report as it is
    sizes = bench.pick((0, 10_000, 100_000), (0, 10_000, 100_000, 1_000_000, 10_000_000))
    budget = Budget(bench.pick(50.0, 480.0))
    for kind in _KINDS:
        with bench.lend(ours()) as (_, url):
            _grow(bench, url, kind, sizes, budget)


def _grow(bench: Bench, url: str, kind: rows.Kind, sizes: tuple[int, ...], budget: Budget) -> None:
    """Measure at each size, in one database that grows."""
    there, rate = 0, 20_000.0
    for size in sizes:
        if not budget.allows((size - there) / rate):
            bench.fail("scale-backlog", f"{size:,} {kind}", "left out, it would take too long")
            return
        with bench.server.connect(url) as connection:
            rows.first(connection, "bench", 5_000)
            began = time.monotonic()
            rows.beside(connection, "bench", kind, size - there)
            rows.settle(connection)
            if size - there >= 50_000:
                rate = (size - there) / (time.monotonic() - began)
        there = size
        bench.server.calm()
        with alkstore_postgres.open(url) as store, counting(bench.server, url) as counter:
            queue = store.queue("bench")
            for limit, question in _QUESTIONS.items():
                cost = counter.cost(partial(queue.claim, "bench", limit), _TIMES)
                question.note(bench.results, kind, size, cost)
        bench.say(f"  {size:,} {kind}")
