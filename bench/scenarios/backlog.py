"""What a claim reads beside a backlog."""

from __future__ import annotations

from functools import partial

import alkstore_postgres
from bench import rows
from bench.bench import Bench
from bench.cases import ours
from bench.counting import counting
from bench.figures import Metric
from bench.registry import scenario


@scenario("backlog", "Pages read by one claim")
def run(bench: Bench) -> None:
    """Pages (cached or not) that a claim of 1 and of 100 touches, of which some are written:
    in a queue with 5,000 ready jobs, and with a backlog beside them of jobs that are ready as
    well, of jobs delayed at a higher priority, or of dead letters.
    """  # noqa: D205 - shown in the report as it is
    count = bench.pick(50_000, 1_000_000)
    backlogs: tuple[tuple[str, rows.Kind, int], ...] = (
        ("nothing beside", "waiting", 0),
        (f"{count:,} ready", "waiting", count),
        (f"{count:,} delayed at a higher priority", "delayed", count),
        (f"{count:,} dead letters", "dead", count),
    )
    for name, kind, size in backlogs:
        with bench.lend(ours()) as (_, url):
            with bench.server.connect(url) as connection:
                rows.first(connection, "bench", 5_000)
                rows.beside(connection, "bench", kind, size)
                rows.settle(connection)
            with alkstore_postgres.open(url) as store, counting(bench.server, url) as counter:
                queue = store.queue("bench")
                for limit in (1, 100):
                    cost = counter.cost(partial(queue.claim, "bench", limit), 30)
                    metric = Metric(f"claim of {limit}, pages", "pages", "lower")
                    bench.results.add("backlog", metric, name, "ours", cost.pages)
