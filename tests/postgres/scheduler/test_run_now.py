"""A schedule is run by hand: one extra job, and no boundary moves (contract section 7)."""

from __future__ import annotations

from datetime import timedelta

import pytest

from alkstore import ScheduleQuarantined
from alkstore_postgres.store import PostgresStore
from tests.support.schedules import ScheduleTable
from tests.support.waiting import wait_until

MINUTE = timedelta(minutes=1)


def test_run_now_fires_one_extra_job_and_moves_no_boundary(
    store: PostgresStore, table: ScheduleTable
) -> None:
    made = store.schedule("s", "@every 1h", "q", [1], priority=5, expires=60, max_attempts=9)
    job = store.get_job(store.run_now("s"))
    assert job is not None
    assert (job.queue, job.payload, job.priority, job.max_attempts) == ("q", [1], 5, 9)
    assert (job.schedule, job.scheduled_for) == ("s", None)
    assert job.expires_at == job.enqueued_at + MINUTE
    assert (job.visibility_timeout, job.base_backoff) == (5 * MINUTE, MINUTE)
    assert store.get_schedule("s") == made
    store.pause("s")
    assert store.run_now("s") > job.id


def test_run_now_is_heard_by_who_waits_for_the_queue(store: PostgresStore) -> None:
    store.schedule("s", "@every 1h", "q", 1)
    with store.listen("q") as listener:
        wait_until(lambda: store._parts.hub.state == "listening")
        while listener.wait(0.01) is not None:
            pass  # the wake of the first connection
        store.run_now("s")
        wake = listener.wait(5)
    assert wake is not None
    assert wake.channel == "q"


def test_run_now_of_a_quarantined_schedule_is_refused(
    store: PostgresStore, table: ScheduleTable
) -> None:
    store.schedule("s", "@every 1h", "q", 1)
    table.set("s", "spec", "'banana'")
    with pytest.raises(ScheduleQuarantined, match="banana"):
        store.run_now("s")
    assert table.jobs() == 0
