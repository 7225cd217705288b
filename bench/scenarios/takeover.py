"""How soon a standby leads."""

from __future__ import annotations

import time
from contextlib import ExitStack

from bench.bench import Bench
from bench.cases import ours
from bench.figures import Metric
from bench.registry import scenario

_RELEASE = Metric("take-over after a release", "ms", "lower")
_KILL = Metric("take-over after SIGKILL", "ms", "lower")


@scenario("takeover", "Take-over by a standby")
def run(bench: Bench) -> None:
    """Milliseconds until the standby reports that it leads: from the call that stops the
    leader, and from the leader's SIGKILL (the lease's time to live is 10 s, and was last
    renewed up to 2 s before). On the monotonic clock that the processes share.
    """  # noqa: D205 - shown in the report as it is
    with ExitStack() as stack:
        first, url = stack.enter_context(bench.lend(ours()))
        pair = [first, stack.enter_context(bench.start(ours(), url))]
        for number, child in enumerate(pair):
            child.call("start", part="scheduler")
            child.call("until", state="leading" if number == 0 else "standby", seconds=15.0)
        for _ in range(bench.pick(3, 10)):
            time.sleep(0.3)
            pair[1].ask("until", state="leading", seconds=30.0)
            asked: float = pair[0].call("stop")
            leads: float = pair[1].answer()
            bench.results.add("takeover", _RELEASE, "alkstore", "ours", (leads - asked) * 1e3)
            pair[0].call("start", part="scheduler")
            pair[0].call("until", state="standby", seconds=15.0)
            pair.reverse()
        for _ in range(bench.pick(1, 5)):
            time.sleep(0.7)
            pair[1].ask("until", state="leading", seconds=30.0)
            killed = time.monotonic()
            pair[0].kill()
            leads = pair[1].answer()
            bench.results.add("takeover", _KILL, "alkstore", "ours", (leads - killed) * 1e3)
            fresh = stack.enter_context(bench.start(ours(), url))
            fresh.call("start", part="scheduler")
            fresh.call("until", state="standby", seconds=15.0)
            pair = [pair[1], fresh]
