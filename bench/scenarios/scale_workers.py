"""How the drain rate grows with the connections that claim."""

from __future__ import annotations

import time
from contextlib import ExitStack

from alkstore._typing import Self
from bench import rows
from bench.bench import Bench
from bench.cases import Case, ours, raw
from bench.children import Child, ContestantFailed
from bench.counting import Counter, counting
from bench.registry import scenario
from bench.timebox import Budget

_PROCESSES = 4
_LEAD = 0.7
_SCENARIO = "scale-workers"
_FILL = {1: 3_000, 100: 60_000}
"""So many jobs a second of such claims may do; a machine that does more is given twice as many."""

_TRIES = 4


@scenario("scale-workers", "Scale: workers", full_only=True, group="scale")
def run(bench: Bench) -> None:
    """Jobs a second that so many connections drain together, each a thread that claims, does
    nothing and acks, in four processes at most; with claims of 1 and of 100; and the pages
    that the server touches for each job. Raw does the same on its table in two statements.
    """  # noqa: D205 - shown in the report as it is
    sizes = bench.pick((1, 8, 64), (1, 2, 4, 8, 16, 32, 64))
    seconds = bench.pick(1.0, 2.0)
    budget = Budget(bench.pick(55.0, 270.0))
    with ExitStack() as stack:
        crews = [
            stack.enter_context(_Crew(bench, case, batch))
            for batch in (1, 100)
            for case in (ours(loop=True, batch=batch), raw(batch=batch, lazy=True))
        ]
        for turn in range(bench.pick(1, 2)):
            for size in sizes:
                # Each round begins with another one.
                for crew in (*crews[turn:], *crews[:turn]):
                    if not budget.allows(3 * seconds):
                        bench.fail(_SCENARIO, "all", f"round {turn + 1} ended at {size}")
                        return
                    crew.measure(size, seconds)


class _Crew:
    """The processes of one case, on a database of their own.

    Args:
        bench: The run.
        case: Who they are.
        batch: How many jobs a claim takes.
    """

    def __init__(self, bench: Bench, case: Case, batch: int) -> None:
        self._bench = bench
        self._case = case
        self._batch = batch
        self._fill = _FILL[batch]
        self._left = 0

    def __enter__(self) -> Self:
        """Start them."""
        with ExitStack() as stack:
            first, self._url = stack.enter_context(self._bench.lend(self._case))
            others = [
                stack.enter_context(self._bench.start(self._case, self._url))
                for _ in range(_PROCESSES - 1)
            ]
            self._children = [first, *others]
            self._counter = stack.enter_context(counting(self._bench.server, self._url))
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        """End them."""
        self._stack.close()

    def measure(self, size: int, seconds: float) -> None:
        """Let *size* connections work for a while."""
        try:
            done, pages = self._worked(size, seconds)
        except ContestantFailed as error:
            self._bench.fail(_SCENARIO, f"{self._case.name}, {size} connections", error)
            return
        for what, unit, value in (
            ("jobs drained", "jobs/s", done / seconds),
            ("pages touched", "pages a job", pages),
        ):
            title = f"Workers: {what}, claims of {self._batch}"
            curve = self._bench.results.curve(_SCENARIO, title, "connections", unit)
            curve.add(self._case.name, size, value)

    def _worked(self, size: int, seconds: float) -> tuple[int, float]:
        """Return how many jobs were done in the time, and the pages for each."""
        for _ in range(_TRIES):
            done, pages = self._work(size, seconds)
            if done and self._left > 0:
                return done, pages
            self._fill *= 2
        msg = f"the queue ran empty each time, at last with {self._fill // 2} jobs a second"
        raise ContestantFailed(msg)

    def _work(self, size: int, seconds: float) -> tuple[int, float]:
        wanted = int((seconds + _LEAD + 0.3) * self._fill)
        if self._left < wanted:
            self._children[0].call("bulk", count=wanted - self._left)
            self._left = wanted
        with self._bench.server.connect(self._url) as connection:
            rows.settle(connection)
        self._bench.server.calm()
        crew = self._children[: min(size, _PROCESSES)]
        return self._together(crew, self._counter, size, seconds)

    def _together(
        self, crew: list[Child], counter: Counter, size: int, seconds: float
    ) -> tuple[int, float]:
        at = time.monotonic() + _LEAD
        counter.reset()
        for place, child in enumerate(crew):
            share = size // len(crew) + (place < size % len(crew))
            child.ask("together", workers=share, at=at, seconds=seconds)
        answers = [child.answer(60.0) for child in crew]
        done, worked = (sum(answer[key] for answer in answers) for key in ("jobs", "all"))
        self._left -= worked
        return done, counter.pages() / max(worked, 1)
