"""The memory of a worker that has done many jobs."""

from __future__ import annotations

from contextlib import ExitStack

from bench.bench import Bench
from bench.cases import ours
from bench.figures import Metric
from bench.registry import scenario

_CHUNK = 50_000
_METRIC = Metric("memory, growth", "MB", "lower")


@scenario("memory", "Memory of a worker", full_only=True)
def run(bench: Bench) -> None:
    """Megabytes by which the resident memory of a worker process grew while it drained
    1,000,000 jobs, counted from after its first 20,000; another process fills the queue.
    """  # noqa: D205 - shown in the report as it is
    with ExitStack() as stack:
        worker, url = stack.enter_context(bench.lend(ours()))
        producer = stack.enter_context(bench.start(ours(), url))
        producer.call("bulk", count=20_000)
        worker.call("drain", count=20_000)
        before = worker.call("memory")["now"]
        points = [(0.0, before)]
        for done in range(_CHUNK, 1_000_001, _CHUNK):
            producer.call("bulk", count=_CHUNK)
            worker.call("drain", count=_CHUNK)
            points.append((float(done), worker.call("memory")["now"]))
        bench.results.lines["Memory of a worker, MB by jobs done"] = {"alkstore": points}
        bench.results.add("memory", _METRIC, "alkstore", "ours", points[-1][1] - before)
