"""Schedulers that are not the leader stand by."""

from __future__ import annotations

import time
from collections.abc import Callable

from alkstore_postgres import PostgresStore
from tests.support.waiting import wait_until


def test_a_standby_takes_over_at_once_when_the_leader_stops(
    open_store: Callable[..., PostgresStore],
) -> None:
    """Field case B22."""
    leader = open_store().start_scheduler()
    wait_until(lambda: leader.state == "leading")
    standby = open_store().start_scheduler()
    wait_until(lambda: standby.state == "standby")
    assert standby.health().healthy
    time.sleep(0.2)  # let it park
    assert leader.stop(5)
    wait_until(lambda: standby.state == "leading", 1)


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
