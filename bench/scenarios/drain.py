"""No-op jobs, as fast as one worker process does them."""

from __future__ import annotations

from bench.bench import Bench
from bench.cases import ours, raw
from bench.children import Child
from bench.figures import Metric
from bench.registry import scenario

_WORKER = Metric("drain, one worker process", "jobs/s", baseline="raw, batches of 100")
_UNDER_WAY = Metric("drain, from the first handler on", "jobs/s", baseline="raw, batches of 100")
_BATCHES = Metric("drain, claims and acks of 100 by hand", "jobs/s", baseline="raw, two statements")
_SINGLE = Metric("drain, single claims and acks by hand", "jobs/s", baseline="raw, lazy claims")

PATIENCE = 20.0
"""So long a peer may fill, and so long it may drain, in seconds."""


@scenario("drain", "Drain of no-op jobs")
def run(bench: Bench) -> None:
    """Jobs a second from a full queue to an empty one. A worker process (10,000 jobs, each
    with its own handle, retry and ack) beside a raw loop that acks a batch of 100 and claims
    the next in one statement; claims of 100 by hand beside raw ones in two statements; and
    single ones (a raw claim may leave the disk out, the ack may not). For us and raw the
    clock runs from the start of the worker to the last commit; beside the peers, whose start-up
    is left out, from the first handler for all. What a peer has stored in 20 seconds, and done in
    another 20, counts.
    """  # noqa: D205 - shown in the report as it is
    few = bench.pick(400, 3_000)
    worker = [ours(), raw("raw, batches of 100", batch=100, together=True)]
    if bench.full:
        worker.append(ours("alkstore, 4 handler threads", concurrency=4))
    bench.interleave("drain", [*worker, *bench.peers], Sampler(_WORKER, 10_000))
    batches = [ours(loop=True, batch=100), raw("raw, two statements", batch=100)]
    bench.interleave("drain", batches, Sampler(_BATCHES, 10_000))
    single = [ours(loop=True, batch=1), raw("raw, lazy claims", lazy=True)]
    if bench.full:
        single.append(raw("raw, durable claims"))
    bench.interleave("drain", single, Sampler(_SINGLE, few))


class Sampler:
    """Drains once.

    Args:
        metric: What the figure is.
        count: How many jobs.
    """

    def __init__(self, metric: Metric, count: int) -> None:
        self._metric = metric
        self._count = count
        self._left: dict[int, int] = {}

    def __call__(self, child: Child) -> dict[Metric, float]:
        """Fill the queue and drain it."""
        fill = self._count - self._left.get(child.pid, 0)
        patience = PATIENCE if child.kind == "peer" else None
        found = child.call("drain", count=self._count, fill=fill, patience=patience)
        self._left[child.pid] = found["left"]
        rates = {}
        if child.kind != "peer":
            rates[self._metric] = found["jobs"] / found["from_call"]
        if self._metric is _WORKER:
            rates[_UNDER_WAY] = found["jobs"] / found["from_first"]
        return rates
