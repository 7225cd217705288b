"""How the cost of the tick grows with the schedules."""

from __future__ import annotations

from bench.bench import Bench
from bench.counting import Question, counting
from bench.registry import scenario
from bench.scenarios.tick import due_seconds, lend_store, ticker_and_lease

_DUE = "Schedules: a tick that fires all"
_IDLE = Question("scale-schedules", "Schedules: a tick with none due", "registered")


@scenario("scale-schedules", "Scale: schedules", full_only=True, group="scale")
def run(bench: Bench) -> None:
    """Pages touched and milliseconds of a tick that finds nothing due, with so many schedules
    registered; and fires a second of a tick over so many that are due at once.
    """  # noqa: D205 - shown in the report as it is
    sizes = bench.pick((1, 100, 10_000), (1, 10, 100, 1_000, 10_000, 100_000))
    for _ in range(bench.pick(1, 3)):
        for size in sizes:
            _none_due(bench, size)
            rate = size / due_seconds(bench, size)
            curve = bench.results.curve("scale-schedules", _DUE, "due", "fires/s")
            curve.add("alkstore", size, rate)


def _none_due(bench: Bench, size: int) -> None:
    with lend_store(bench, size, 3_600.0) as (store, url), counting(bench.server, url) as counter:
        ticker, lease = ticker_and_lease(store)
        cost = counter.cost(lambda: ticker.slice(lease, damaged=False), 60, warm=10)
    _IDLE.note(bench.results, "alkstore", size, cost)
