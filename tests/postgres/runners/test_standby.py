"""Schedulers that are not the leader stand by."""

from __future__ import annotations

import time
from collections.abc import Callable

from alkstore_postgres import PostgresStore
from tests.support.timing import in_time
from tests.support.waiting import rest, wait_until


def test_a_standby_takes_over_at_once_when_the_leader_stops(
    open_store: Callable[..., PostgresStore],
) -> None:
    """Field case B22."""
    leaders = [open_store().start_scheduler()]
    wait_until(lambda: leaders[0].state == "leading")

    def hand_over() -> float:
        standby = open_store().start_scheduler()
        wait_until(lambda: standby.state == "standby")
        assert standby.health().healthy
        rest(0.2)  # let it park
        assert leaders.pop().stop(20)
        began = time.monotonic()
        leaders.append(standby)
        wait_until(lambda: standby.state == "leading", 20)
        return time.monotonic() - began

    in_time(hand_over, 1)


def test_a_standby_that_stops_leaves_the_leader_alone(
    open_store: Callable[..., PostgresStore],
) -> None:
    """Field case B119."""
    leader = open_store().start_scheduler()
    wait_until(lambda: leader.state == "leading")
    store = open_store()
    for _ in range(20):
        standby = store.start_scheduler()
        wait_until(lambda: standby.state == "standby")  # noqa: B023 - called here only
        assert standby.stop(5)
    assert leader.state == "leading"
    assert leader.last_error is None
