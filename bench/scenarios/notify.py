"""From a wake that is sent to the waiter that hears it."""

from __future__ import annotations

import bisect
import time
from contextlib import ExitStack

from bench.bench import Bench
from bench.cases import Case, ours, raw
from bench.children import ContestantFailed
from bench.figures import Metric, percentile
from bench.registry import scenario

_P50 = Metric("NOTIFY to waiter, p50", "ms", "lower", "raw")
_P99 = Metric("NOTIFY to waiter, p99", "ms", "lower", "raw")
_GAP = 0.03


@scenario("notify", "NOTIFY to waiter")
def run(bench: Bench) -> None:
    """Milliseconds from the call that notifies, in one process, to the waiter's return in
    another: `store.notify` and `store.listen`, beside psycopg by hand; 30 ms apart.
    """  # noqa: D205 - shown in the report as it is
    count = bench.pick(50, 500)
    for _ in range(bench.pick(1, 3)):
        for case in (ours(), raw()):
            try:
                delays = _delays(bench, case, count)
            except ContestantFailed as error:
                bench.fail("notify", case.name, error)
                continue
            bench.results.add("notify", _P50, case.name, case.kind, percentile(delays, 0.5))
            bench.results.add("notify", _P99, case.name, case.kind, percentile(delays, 0.99))


def _delays(bench: Bench, case: Case, count: int) -> list[float]:
    with ExitStack() as stack:
        waiter, url = stack.enter_context(bench.lend(case))
        sender = stack.enter_context(bench.start(case, url))
        sender.call("notify", count=1, gap=0.0)
        waiter.ask("hear", seconds=count * (_GAP + 0.005) + 2.0)
        time.sleep(1.0)
        sent: list[float] = sender.call("notify", count=count, gap=_GAP)
        heard: list[float] = waiter.answer()
    # Wakes may be merged: then one answers several calls, the earlier ones late.
    places = [bisect.bisect_left(heard, before) for before in sent]
    delays = [
        (heard[place] - before) * 1e3
        for place, before in zip(places, sent, strict=True)
        if place < len(heard)
    ]
    if len(delays) < count:
        msg = f"after {count - len(delays)} of {count} calls no wake was heard"
        raise ContestantFailed(msg)
    return delays
