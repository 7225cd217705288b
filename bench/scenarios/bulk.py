"""Many jobs at once."""

from __future__ import annotations

from bench.bench import Bench
from bench.cases import ours, raw
from bench.children import Child
from bench.figures import Metric
from bench.registry import scenario

_METRIC = Metric("bulk enqueue", "jobs/s", baseline="raw, arrays of 1,000")
_COUNT = 20_000


@scenario("bulk", "Bulk enqueue of 20,000 jobs")
def run(bench: Bench) -> None:
    """Jobs a second of one call with 20,000 payloads, encoding and returned ids included.
    Raw: arrays of 1,000 in one transaction, with ids; and binary ``COPY``, without.
    """  # noqa: D205 - shown in the report as it is

    def sample(child: Child) -> dict[Metric, float]:
        found = child.call("bulk", count=_COUNT)
        return {_METRIC: found["jobs"] / found["seconds"]}

    cases = [ours(), raw("raw, arrays of 1,000"), raw("raw, COPY", copy=True), *bench.peers]
    bench.interleave("bulk", cases, sample)
