"""No-op jobs, as fast as one worker process does them."""

from __future__ import annotations

from bench.bench import Bench
from bench.cases import ours, raw
from bench.children import Child
from bench.figures import Metric
from bench.registry import scenario

_WORKER = Metric("drain, one worker process", "jobs/s", baseline="raw, batches of 100")
_BATCHES = Metric("drain, claims and acks of 100 by hand", "jobs/s", baseline="raw, two statements")
_SINGLE = Metric("drain, single claims and acks by hand", "jobs/s", baseline="raw, lazy claims")


@scenario("drain", "Drain of no-op jobs")
def run(bench: Bench) -> None:
    """Jobs a second from a full queue to an empty one. A worker process (10,000 jobs, each
    with its own handle, retry and ack) beside a raw loop that acks a batch of 100 and claims
    the next in one statement; claims of 100 by hand beside raw ones in two statements; and
    single ones (a raw claim may leave the disk out, the ack may not). For us and raw the
    clock runs from the start of the worker to the last commit, for peers from the first
    handler to the last, which leaves their start-up out.
    """  # noqa: D205 - shown in the report as it is
    few = bench.pick(400, 5_000)
    worker = [
        ours(),
        ours("alkstore, 4 handler threads", concurrency=4),
        raw("raw, batches of 100", batch=100, together=True),
    ]
    bench.interleave("drain", worker, Sampler(_WORKER, 10_000, "from_call"))
    bench.interleave("drain", bench.peers, Sampler(_WORKER, 10_000, "from_first"), rounds=3)
    batches = [ours(loop=True, batch=100), raw("raw, two statements", batch=100)]
    bench.interleave("drain", batches, Sampler(_BATCHES, 10_000, "from_call"))
    single = [
        ours(loop=True, batch=1),
        raw("raw, lazy claims", lazy=True),
        raw("raw, durable claims"),
    ]
    bench.interleave("drain", single, Sampler(_SINGLE, few, "from_call"))


class Sampler:
    """Drains once.

    Args:
        metric: What the figure is.
        count: How many jobs.
        basis: Which of the times counts.
    """

    def __init__(self, metric: Metric, count: int, basis: str) -> None:
        self._metric = metric
        self._count = count
        self._basis = basis

    def __call__(self, child: Child) -> dict[Metric, float]:
        """Fill the queue and drain it."""
        found = child.call("drain", count=self._count, fill=self._count)
        return {self._metric: found["jobs"] / found[self._basis]}
