"""From the enqueue call of one process to the handler of an idle worker in another."""

from __future__ import annotations

import time
from contextlib import ExitStack
from itertools import pairwise

from bench.bench import Bench
from bench.cases import Case, ours, raw
from bench.children import Child, ContestantFailed
from bench.figures import Metric, percentile
from bench.registry import scenario

_FREE, _BRISK = 0.25, 0.06
_NAMES = {_FREE: "pick-up", _BRISK: "pick-up at 16 jobs/s"}


@scenario("pickup", "Pick-up by an idle worker")
def run(bench: Bench) -> None:
    """Milliseconds from the enqueue call in one process to the start of the handler in
    another one that was idle, on the monotonic clock that both share. Jobs come at random
    times, 250 ms apart on average; and 60 ms apart, where most of our wakes are sent by a thread.
    Raw: one thread that listens, claims and works, by claims that do not wait for the disk, as
    ours; in the full run also by such that do, and with a thread of its own that listens, as a
    store has it for all that wait. The peers take part in the first round only.
    """  # noqa: D205 - shown in the report as it is
    cases = [ours(), raw(notify=True, listen=True, lazy=True)]
    if bench.full:
        cases.append(raw("raw, durable claims", notify=True, listen=True))
        cases.append(raw("raw, a listening thread", notify=True, ear=True, lazy=True))
    cases += bench.peers
    for turn in range(bench.pick(1, 3)):
        for case in list(cases):
            if turn and case.kind == "peer":
                continue
            try:
                found = _delays(bench, case, bench.pick(20, 100))
            except ContestantFailed as error:
                bench.fail("pickup", case.name, error)
                cases.remove(case)
                continue
            for name, delays in found.items():
                _add(bench, case, name, delays)


def _add(bench: Bench, case: Case, name: str, delays: list[float]) -> None:
    for share, label in ((0.5, "p50"), (0.99, "p99")):
        metric = Metric(f"{name}, {label}", "ms", "lower", "raw")
        bench.results.add("pickup", metric, case.name, case.kind, percentile(delays, share))


def _delays(bench: Bench, case: Case, count: int) -> dict[str, list[float]]:
    """Return the delays of *count* jobs at each gap, all of one worker."""
    with ExitStack() as stack:
        worker, url = stack.enter_context(bench.lend(case))
        producer = stack.enter_context(bench.start(case, url))
        worker.call("start_idle")
        time.sleep(1.0)
        producer.call("produce", count=5, gap=0.1)
        time.sleep(1.0)
        ends = [worker.call("handled")]
        for gap in _NAMES:
            producer.call("produce", count=count, gap=gap)
            _await_handled(worker, ends[-1] + count)
            ends.append(ends[-1] + count)
        delays: list[float] = worker.call("end_idle", limit=90.0)
    return {
        name: delays[before:after]
        for name, (before, after) in zip(_NAMES.values(), pairwise(ends), strict=True)
    }


def _await_handled(worker: Child, count: int) -> None:
    """Wait until *count* jobs have reached the worker."""
    limit = time.monotonic() + 10.0
    while (missing := count - worker.call("handled")) > 0:
        if time.monotonic() > limit:
            msg = f"{missing} of {count} jobs did not arrive"
            raise ContestantFailed(msg)
        time.sleep(0.05)
