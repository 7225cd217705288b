"""The leader loop fires in time, whoever calls it (contract section 7)."""

from __future__ import annotations

import threading
from datetime import timedelta

from alkstore import StopToken
from alkstore_postgres.store import PostgresStore
from tests.support.leading import Leading, late, owner_of
from tests.support.schedules import ScheduleTable, grid
from tests.support.timing import in_time
from tests.support.waiting import wait_until

SECOND = timedelta(seconds=1)


def test_a_leader_fires_each_boundary_in_time_and_never_early(
    store: PostgresStore, table: ScheduleTable
) -> None:
    store.schedule("s", "@every 1s", "s", 1)

    def three_more() -> float:
        seen = len(table.fired("s"))
        wait_until(lambda: len(table.fired("s")) >= seen + 3)
        delays = late(store, "s")
        assert min(delays) >= timedelta(0)
        return max(delays).total_seconds()

    with Leading(store):
        in_time(three_more, 1)
    fired = table.fired("s")
    assert fired == grid(fired[0], SECOND, len(fired))


def test_the_loop_runs_through_the_store(store: PostgresStore, table: ScheduleTable) -> None:
    store.schedule("s", "@every 1h", "s", 1)
    table.shift("s", -1)
    stop = StopToken()
    thread = threading.Thread(target=store.run_schedules, args=(stop,))
    thread.start()
    wait_until(lambda: table.jobs() == 1)
    stop.cancel()
    thread.join(5)
    assert not thread.is_alive()
    wait_until(lambda: owner_of(table) is None)
