"""A log handler that raises costs a scheduler and a kept lock a line, and nothing else.

Field case B08.
"""

from __future__ import annotations

import logging

import pytest

from alkstore import DatabaseError
from alkstore_postgres.lock.leases import Lease
from alkstore_postgres.store import PostgresStore
from tests.support.broken_log import broken_log
from tests.support.handles import held
from tests.support.leading import owner_of
from tests.support.schedules import ScheduleTable
from tests.support.waiting import wait_until


@pytest.mark.parametrize("level", [logging.INFO, logging.WARNING])
def test_a_scheduler_leads_fires_and_gives_its_lease_back(
    store: PostgresStore, table: ScheduleTable, caplog: pytest.LogCaptureFixture, level: int
) -> None:
    caplog.set_level(level, "alkstore")
    store.schedule("s", "@every 1s", "s", 1)
    table.shift("s", -100)  # more than 64 boundaries are missed: that is told
    with broken_log("alkstore") as log, broken_log("alkstore_postgres") as other:
        runner = store.start_scheduler()
        wait_until(lambda: len(table.fired("s")) >= 2)
        wait_until(lambda: runner.state == "leading")
        assert runner.last_error is None
        assert runner.stop(5)
    wait_until(lambda: owner_of(table) is None)
    told = "leading" if level == logging.INFO else "skipped"
    assert any(told in line for line in (*log.refused, *other.refused))


def test_a_lock_is_kept_over_a_failed_renewal(
    store: PostgresStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    leases = store._parts.leases
    renew, failures, renewed = leases.renew, [DatabaseError("away", retryable=True)], []

    def fail_once(lease: Lease, ttl: float) -> bool:
        if failures:
            raise failures.pop()
        renewed.append(renew(lease, ttl))
        return renewed[-1]

    monkeypatch.setattr(leases, "renew", fail_once)
    with (
        broken_log("alkstore_postgres") as log,
        held(store.try_lock("x", 3, keep_alive=True)) as handle,
    ):
        wait_until(lambda: len(renewed) >= 2)
        assert renewed == [True] * len(renewed)
        assert not handle.lost
    assert any("could not be renewed" in line for line in log.refused)
