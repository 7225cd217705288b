"""One enqueue, in a transaction of its own."""

from __future__ import annotations

from bench.bench import Bench
from bench.cases import ours, raw
from bench.children import Child, ContestantFailed
from bench.figures import Metric
from bench.registry import scenario

_CLIENTS = (1, 8, 32)


def _name(clients: int) -> str:
    return f"enqueue, {clients} client{'s' * (clients > 1)}"


_METRICS = {clients: Metric(_name(clients), "jobs/s", baseline="raw") for clients in _CLIENTS}
_SHARES = {
    clients: Metric(f"{_name(clients)}: with wakes, of without", "times") for clients in _CLIENTS
}


@scenario("enqueue", "One enqueue a transaction")
def run(bench: Bench) -> None:
    """Jobs a second that 1, 8 and 32 client threads of one process store, one transaction
    each; our wakes as they are and taken out, the raw insert with and without a ``NOTIFY``
    in each transaction. The peers with one client. "With wakes, of without": both in turns in one
    process and database, a ratio for each pair, since processes differ by more than that.
    """  # noqa: D205 - shown in the report as it is
    seconds = bench.pick(0.3, 2.0)

    def sample(child: Child) -> dict[Metric, float]:
        found = {}
        for clients, metric in _METRICS.items():
            if clients == 1 or child.kind != "peer":
                found[metric] = _rate(child, clients, seconds)
        return found

    cases = [
        ours(),
        ours("alkstore, wakes taken out", wakes=False),
        raw(),
        raw("raw, NOTIFY in each", notify=True),
        *bench.peers,
    ]
    bench.interleave("enqueue", cases, sample)
    _pairs(bench)


def _pairs(bench: Bench) -> None:
    """Measure what wakes cost: with them and without, in turns, in one process."""
    case = ours()
    seconds = bench.pick(0.2, 0.3)
    try:
        with bench.lend(case) as (child, _url):
            for clients, metric in _SHARES.items():
                for turn in range(bench.pick(4, 32)):
                    rates = {}
                    for on in (turn % 2 == 0, turn % 2 == 1):
                        child.call("wakes", on=on)
                        rates[on] = _rate(child, clients, seconds)
                    share = rates[True] / rates[False]
                    bench.results.add("enqueue", metric, case.name, case.kind, share)
    except ContestantFailed as error:
        bench.fail("enqueue", case.name, error)


def _rate(child: Child, clients: int, seconds: float) -> float:
    done = child.call("enqueue", clients=clients, seconds=seconds)
    rate: float = done["jobs"] / done["seconds"]
    return rate
