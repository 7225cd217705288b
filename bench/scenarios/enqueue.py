"""One enqueue, in a transaction of its own."""

from __future__ import annotations

from bench.bench import Bench
from bench.cases import ours, raw
from bench.children import Child
from bench.figures import Metric
from bench.registry import scenario

_METRICS = {
    clients: Metric(f"enqueue, {clients} client{'s' * (clients > 1)}", "jobs/s", baseline="raw")
    for clients in (1, 8, 32)
}


@scenario("enqueue", "One enqueue a transaction")
def run(bench: Bench) -> None:
    """Jobs a second that 1, 8 and 32 client threads of one process store, one transaction
    each; our wakes as they are and taken out, the raw insert with and without a ``NOTIFY``
    in each transaction. The peers with one client.
    """  # noqa: D205 - shown in the report as it is
    seconds = bench.pick(0.3, 2.0)

    def sample(child: Child) -> dict[Metric, float]:
        found = {}
        for clients, metric in _METRICS.items():
            if clients == 1 or child.kind != "peer":
                done = child.call("enqueue", clients=clients, seconds=seconds)
                found[metric] = done["jobs"] / done["seconds"]
        return found

    cases = [
        ours(),
        ours("alkstore, wakes taken out", wakes=False),
        raw(),
        raw("raw, NOTIFY in each", notify=True),
        *bench.peers,
    ]
    bench.interleave("enqueue", cases, sample)
