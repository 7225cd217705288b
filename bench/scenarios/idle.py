"""What idle parts cost the server."""

from __future__ import annotations

import time
from contextlib import ExitStack

from bench.bench import Bench
from bench.cases import Case, ours
from bench.children import Child, ContestantFailed
from bench.figures import Metric
from bench.registry import scenario

_SETTLE = 4.0
_COUNT = """
SELECT coalesce(sum(s.calls), 0) FROM pg_stat_statements AS s
JOIN pg_roles AS r ON r.oid = s.userid
WHERE r.rolname = %s AND (%s OR s.query <> 'SELECT pg_catalog.pg_notify($1, $2)')
"""
"""The last are the listener's probes: it is one for all that a process runs."""


@scenario("idle", "Statements a minute while idle")
def run(bench: Bench) -> None:
    """Statements that the server ran for one idle process of each kind, a minute: exact
    counts of `pg_stat_statements` (``BEGIN``, ``COMMIT`` and the like included), each process
    under a role of its own. The standby stands beside the leader. The probes of the listener,
    one for all that a process runs, are in its own row only. All are counted over the same
    time.
    """  # noqa: D205 - shown in the report as it is
    if not bench.server.count_statements():
        bench.fail("idle", "all", "the server has not loaded pg_stat_statements")
        return
    with ExitStack() as stack:
        roles: dict[str, tuple[Case, str]] = {}
        _, url = stack.enter_context(bench.lend(ours()))
        for part in ("leader", "standby", "worker", "relay", "listener"):
            case = ours(part)
            role, own = bench.server.role(url)
            child = stack.enter_context(bench.start(case, own))
            child.call("start", part="scheduler" if part in {"leader", "standby"} else part)
            roles[f"alkstore, {part}"] = (case, role)
            if part == "leader":
                child.call("until", state="leading", seconds=15.0)
        for case in bench.peers:
            try:
                role = _start_peer(bench, case, stack)
            except ContestantFailed as error:
                bench.fail("idle", case.name, error)
            else:
                roles[f"{case.name}, worker"] = (case, role)
        time.sleep(_SETTLE)
        _count(bench, roles, bench.pick(15.0, 120.0))


def _start_peer(bench: Bench, case: Case, stack: ExitStack) -> str:
    _, url = stack.enter_context(bench.lend(case))
    role, own = bench.server.role(url)
    child: Child = stack.enter_context(bench.start(case, own))
    child.call("start_idle")
    return role


def _count(bench: Bench, roles: dict[str, tuple[Case, str]], seconds: float) -> None:
    metric = Metric("statements a minute", "1/min", "lower")
    with bench.server.connect() as connection:

        def calls() -> dict[str, int]:
            return {
                name: int(
                    connection.execute(
                        _COUNT, (role, case.kind != "ours" or "listener" in name)
                    ).fetchall()[0][0]
                )
                for name, (case, role) in roles.items()
            }

        before, began = calls(), time.monotonic()
        time.sleep(seconds)
        after, took = calls(), time.monotonic() - began
    for name, (case, _) in roles.items():
        a_minute = (after[name] - before[name]) * 60.0 / took
        bench.results.add("idle", metric, name, case.kind, a_minute)
