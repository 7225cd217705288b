"""How the tests are shared out among the processes of a run.

The longest ones wait for most of their time: for the end of an outage, for a lease to lapse. Half
of the processes begin with them, one after the other, while the rest keep the processors busy;
whoever has nothing left takes over half of what somebody else still has.
"""

from __future__ import annotations

import os
from typing import Any

import pytest


def processes() -> int:
    """Return how many processes run tests."""
    return int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))


def shared_out(items: list[pytest.Item], among: int) -> list[pytest.Item]:
    """Return the items in an order whose *among* equal parts are the processes' first shares."""
    slow = [item for item in items if item.get_closest_marker("slow")]
    rest = [item for item in items if not item.get_closest_marker("slow")]
    beginning_with_slow = max(1, among // 2)
    order: list[pytest.Item] = []
    left = len(items)
    for number in range(among):
        size = left // (among - number)
        left -= size
        first = slow[number::beginning_with_slow] if number < beginning_with_slow else []
        order += first + rest[: size - len(first)]
        del rest[: size - len(first)]
    return order


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put the tests in order; one process alone keeps to the order of the files."""
    if processes() > 1:
        items[:] = shared_out(items, processes())


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Let the processes take over from each other, unless the command line says otherwise."""
    from xdist.scheduler import WorkStealingScheduling

    return WorkStealingScheduling(config, log) if config.getoption("dist") == "load" else None
