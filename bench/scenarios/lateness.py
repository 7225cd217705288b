"""How late `@every 1s` fires."""

from __future__ import annotations

import time
from contextlib import ExitStack

import alkstore_postgres
from bench.bench import Bench
from bench.cases import ours
from bench.figures import Metric, percentile
from bench.registry import scenario

_LATENESS = """
SELECT extract(epoch FROM pg_xact_commit_timestamp(xmin) - scheduled_for) * 1000
FROM alkstore.jobs WHERE queue = 'late' ORDER BY scheduled_for
"""


@scenario("lateness", "Lateness of @every 1s")
def run(bench: Bench) -> None:
    """Milliseconds from the boundary to the commit of its fire, both on the server's clock
    (`pg_xact_commit_timestamp`), over consecutive boundaries; one leader, nobody claims.
    ``missed`` counts boundaries without a job.
    """  # noqa: D205 - shown in the report as it is
    if bench.server.setting("track_commit_timestamp") != "on":
        bench.fail("lateness", "alkstore", "the server does not track commit times")
        return
    boundaries = bench.boundaries or bench.pick(8, 600)
    with ExitStack() as stack:
        leader, url = stack.enter_context(bench.lend(ours()))
        leader.call("start", part="scheduler")
        leader.call("until", state="leading", seconds=15.0)
        with alkstore_postgres.open(url) as store:
            store.schedule("late", "@every 1s", "late", None)
        time.sleep(boundaries + 1.5)
        leader.call("stop")
        with bench.server.connect(url) as connection:
            late = [float(row[0]) for row in connection.execute(_LATENESS).fetchall()]
            missed = connection.execute(
                "SELECT extract(epoch FROM max(scheduled_for) - min(scheduled_for))::int + 1"
                " - count(*) FROM alkstore.jobs WHERE queue = 'late'"
            ).fetchall()[0][0]
    for name, value in (
        ("p50", percentile(late, 0.5)),
        ("p99", percentile(late, 0.99)),
        ("max", max(late)),
    ):
        metric = Metric(f"lateness, {name}", "ms", "lower")
        bench.results.add("lateness", metric, "alkstore", "ours", value)
    counted = Metric("lateness, boundaries seen", "boundaries")
    bench.results.add("lateness", counted, "alkstore", "ours", len(late))
    missing = Metric("lateness, missed", "boundaries", "lower")
    bench.results.add("lateness", missing, "alkstore", "ours", float(missed))
    points = [(float(number), value) for number, value in enumerate(late)]
    bench.results.lines["Lateness of @every 1s, ms by boundary"] = {"alkstore": points}
