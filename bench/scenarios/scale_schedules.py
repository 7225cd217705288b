"""How the cost of the tick grows with the schedules."""

from __future__ import annotations

from bench.bench import Bench
from bench.counting import counting
from bench.registry import scenario
from bench.scenarios.tick import _due, _store, _ticker

_DUE = "Schedules: a tick that fires all"
_IDLE = "Schedules: a tick with none due"


@scenario("scale-schedules", "Scale: schedules", full_only=True, group="scale")
def run(bench: Bench) -> None:
    """Pages touched and milliseconds of a tick that finds nothing due, with so many schedules
    registered; and fires a second of a tick over so many that are due at once.
    """  # noqa: D205 - shown in the report as it is
    sizes = bench.pick((1, 100, 10_000), (1, 10, 100, 1_000, 10_000, 100_000))
    for _ in range(bench.pick(1, 3)):
        for size in sizes:
            _none_due(bench, size)
            rate = size / _due(bench, size)
            curve = bench.results.curve("scale-schedules", f"{_DUE}, fires/s", "due", "fires/s")
            curve.add("alkstore", size, rate)


def _none_due(bench: Bench, size: int) -> None:
    with _store(bench, size, 3_600.0) as (store, url), counting(bench.server, url) as counter:
        ticker, lease = _ticker(store)
        cost = counter.cost(lambda: ticker.slice(lease, damaged=False), 60, warm=10)
    for unit, value in (("pages", cost.pages), ("ms", cost.milliseconds)):
        curve = bench.results.curve("scale-schedules", f"{_IDLE}, {unit}", "registered", unit)
        curve.add("alkstore", size, value)
