"""From the enqueue call of one process to the handler of an idle worker in another."""

from __future__ import annotations

import time
from contextlib import ExitStack

from bench.bench import Bench
from bench.cases import Case, ours, raw
from bench.children import ContestantFailed
from bench.figures import Metric, percentile
from bench.registry import scenario

_FREE, _BRISK = 0.25, 0.06
_NAMES = {_FREE: "pick-up", _BRISK: "pick-up at 16 jobs/s"}


@scenario("pickup", "Pick-up by an idle worker")
def run(bench: Bench) -> None:
    """Milliseconds from the enqueue call in one process to the start of the handler in
    another one that was idle, on the monotonic clock that both share. Jobs come at random
    times, 250 ms apart on average; and 60 ms apart, where most of our wakes are sent by a thread.
    """  # noqa: D205 - shown in the report as it is
    cases = [ours(), raw(notify=True, listen=True, lazy=True), *bench.peers]
    for _ in range(bench.pick(1, 3)):
        for case in list(cases):
            try:
                for gap, name in _NAMES.items():
                    _add(bench, case, name, _delays(bench, case, bench.pick(25, 120), gap))
            except ContestantFailed as error:
                bench.fail("pickup", case.name, error)
                cases.remove(case)


def _add(bench: Bench, case: Case, name: str, delays: list[float]) -> None:
    for share, label in ((0.5, "p50"), (0.99, "p99")):
        metric = Metric(f"{name}, {label}", "ms", "lower", "raw")
        bench.results.add("pickup", metric, case.name, case.kind, percentile(delays, share))


def _delays(bench: Bench, case: Case, count: int, gap: float) -> list[float]:
    with ExitStack() as stack:
        worker, url = stack.enter_context(bench.lend(case))
        producer = stack.enter_context(bench.start(case, url))
        worker.call("start_idle")
        time.sleep(1.0)
        producer.call("produce", count=5, gap=0.1)
        time.sleep(1.0)
        warm = worker.call("handled")
        producer.call("produce", count=count, gap=gap)
        limit = time.monotonic() + 10.0
        while worker.call("handled") < warm + count and time.monotonic() < limit:
            time.sleep(0.05)
        delays: list[float] = worker.call("end_idle", limit=90.0)[warm:]
        if len(delays) < count:
            msg = f"{count - len(delays)} of {count} jobs did not arrive"
            raise ContestantFailed(msg)
        return delays
