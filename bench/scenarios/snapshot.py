"""Draining while somebody holds a snapshot."""

from __future__ import annotations

from contextlib import ExitStack

from bench.bench import Bench
from bench.cases import Case, ours, raw
from bench.children import ContestantFailed
from bench.figures import Metric
from bench.registry import scenario

_CHUNK = 20_000


@scenario("snapshot", "Drain under a held snapshot")
def run(bench: Bench) -> None:
    """Jobs a second for each step of a drain while another session holds a ``REPEATABLE
    READ`` snapshot, so that nothing that was done can be vacuumed: the first step, the last,
    and the last as a share of the first. Raw is the plain ``SKIP LOCKED`` query in batches of
    100. Without a snapshot as a control.
    """  # noqa: D205 - shown in the report as it is
    step = bench.pick(10_000, 40_000)
    total = bench.pick(40_000, 400_000)
    for case, held in (
        (ours("alkstore, worker"), True),
        (ours("alkstore, claims of 100 by hand", loop=True, batch=100), True),
        (raw("raw, plain SKIP LOCKED", batch=100, together=True), True),
        (ours("alkstore, worker, no snapshot"), False),
    ):
        if not (bench.full or case.name.endswith(("worker", "LOCKED"))):
            continue
        try:
            steps = _drain(bench, case, total, step, held=held)
        except ContestantFailed as error:
            bench.fail("snapshot", case.name, error)
            continue
        rates = [step / seconds for seconds in steps]
        for name, unit, value in (
            ("first step", "jobs/s", rates[0]),
            ("last step", "jobs/s", rates[-1]),
            ("last of first", "share", rates[-1] / rates[0]),
        ):
            metric = Metric(f"held snapshot, {name}", unit)
            bench.results.add("snapshot", metric, case.name, case.kind, value)
        lines = bench.results.lines.setdefault("Held snapshot, jobs/s by jobs done", {})
        lines[case.name] = [(float(step * (number + 1)), rate) for number, rate in enumerate(rates)]


def _drain(bench: Bench, case: Case, total: int, step: int, *, held: bool) -> list[float]:
    with ExitStack() as stack:
        child, url = stack.enter_context(bench.lend(case))
        for _ in range(total // _CHUNK):
            child.call("bulk", count=_CHUNK)
        connection = stack.enter_context(bench.server.connect(url))
        connection.execute("VACUUM ANALYZE")
        bench.server.calm()
        if held:
            connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
            connection.execute("SELECT count(*) FROM pg_class")
        found: list[float] = child.call("drain", count=total, step=step)["steps"]
        return found
