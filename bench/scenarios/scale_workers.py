"""How the drain rate grows with the connections that claim."""

from __future__ import annotations

import time
from contextlib import ExitStack

from bench.bench import Bench
from bench.cases import Case, ours, raw
from bench.children import Child, ContestantFailed
from bench.counting import Counter, counting
from bench.registry import scenario
from bench.timebox import Budget

_PROCESSES = 4
_SCENARIO = "scale-workers"


@scenario("scale-workers", "Scale: workers", full_only=True, group="scale")
def run(bench: Bench) -> None:
    """Jobs a second that so many connections drain together, each a thread that claims, does
    nothing and acks, in four processes at most; with claims of 1 and of 100; and the pages
    that the server touches for each job. Raw does the same on its table in two statements.
    """  # noqa: D205 - shown in the report as it is
    sizes = bench.pick((1, 8, 64), (1, 2, 4, 8, 16, 32, 64))
    seconds = bench.pick(1.0, 2.0)
    budget = Budget(bench.pick(60.0, 300.0))
    for turn in range(bench.pick(1, 3)):
        for size in sizes:
            for batch in (1, 100):
                cases = [
                    ours(loop=True, batch=batch),
                    raw(batch=batch, lazy=True),
                ]
                for case in cases if turn % 2 == 0 else reversed(cases):
                    if not budget.allows(3 * seconds):
                        bench.fail(_SCENARIO, case.name, f"round {turn + 1} left out from {size}")
                        return
                    try:
                        _drain(bench, case, batch, size, seconds)
                    except ContestantFailed as error:
                        bench.fail(_SCENARIO, f"{case.name}, {size} connections", error)


def _drain(bench: Bench, case: Case, batch: int, size: int, seconds: float) -> None:
    with ExitStack() as stack:
        first, url = stack.enter_context(bench.lend(case))
        rest = [
            stack.enter_context(bench.start(case, url)) for _ in range(min(size, _PROCESSES) - 1)
        ]
        first.call("bulk", count=int((seconds + 1.0) * (3_000 if batch == 1 else 25_000)))
        with bench.server.connect(url) as connection:
            connection.execute("VACUUM ANALYZE")
        bench.server.calm()
        counter = stack.enter_context(counting(bench.server, url))
        done, pages = _work([first, *rest], size, seconds, counter)
    for what, unit, value in (
        ("jobs drained", "jobs/s", done / seconds),
        ("pages touched", "pages a job", pages),
    ):
        title = f"Workers: {what}, claims of {batch}"
        curve = bench.results.curve(_SCENARIO, title, "connections", unit)
        curve.add(case.name, size, value)


def _work(children: list[Child], size: int, seconds: float, counter: Counter) -> tuple[int, float]:
    """Let them work together; return how many jobs were done, and the pages for each."""
    at = time.monotonic() + 1.0
    counter.reset()
    for place, child in enumerate(children):
        share = size // len(children) + (place < size % len(children))
        child.ask("together", workers=share, at=at, seconds=seconds)
    answers = [child.answer(60.0) for child in children]
    return sum(one["jobs"] for one in answers), counter.pages() / sum(one["all"] for one in answers)
