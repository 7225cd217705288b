"""From the enqueue call of one process to the handler of an idle worker in another."""

from __future__ import annotations

import time
from contextlib import ExitStack

from bench.bench import Bench
from bench.cases import Case, ours, raw
from bench.children import ContestantFailed
from bench.figures import Metric, percentile
from bench.registry import scenario

_P50 = Metric("pick-up, p50", "ms", "lower", "raw")
_P99 = Metric("pick-up, p99", "ms", "lower", "raw")


@scenario("pickup", "Pick-up by an idle worker")
def run(bench: Bench) -> None:
    """Milliseconds from the enqueue call in one process to the start of the handler in
    another one that was idle, on the monotonic clock that both share; jobs come at random
    times, 60 ms apart on average, so that the worker is idle again each time.
    """  # noqa: D205 - shown in the report as it is
    cases = [ours(), raw(notify=True, listen=True, lazy=True), *bench.peers]
    for _ in range(bench.pick(2, 3)):
        for case in list(cases):
            try:
                delays = _delays(bench, case, bench.pick(50, 200))
            except ContestantFailed as error:
                bench.fail("pickup", case.name, error)
                cases.remove(case)
                continue
            bench.results.add("pickup", _P50, case.name, case.kind, percentile(delays, 0.5))
            bench.results.add("pickup", _P99, case.name, case.kind, percentile(delays, 0.99))


def _delays(bench: Bench, case: Case, count: int) -> list[float]:
    with ExitStack() as stack:
        url = stack.enter_context(bench.database(case))
        worker = stack.enter_context(bench.start(case, url))
        producer = stack.enter_context(bench.start(case, url))
        worker.call("start_idle")
        time.sleep(1.0)
        producer.call("produce", count=5, gap=0.1)
        time.sleep(1.0)
        warm = worker.call("handled")
        producer.call("produce", count=count, gap=0.06)
        limit = time.monotonic() + 10.0
        while worker.call("handled") < warm + count and time.monotonic() < limit:
            time.sleep(0.05)
        delays: list[float] = worker.call("end_idle", limit=90.0)[warm:]
        if len(delays) < count:
            msg = f"{count - len(delays)} of {count} jobs did not arrive"
            raise ContestantFailed(msg)
        return delays
