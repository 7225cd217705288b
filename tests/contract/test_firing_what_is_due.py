"""Tests of applications fire schedules, and step time where it is theirs."""

from __future__ import annotations

from contextlib import closing
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest

from alkstore import InvalidOption, Store
from alkstore.memory import ManualClock, MemoryStore
from alkstore.testing import EngineHarness, assert_enqueued, fire_due
from tests.support.postgres_harness import PostgresHarness
from tests.support.schemas import Schemas


def test_what_is_due_now_is_fired(engine: EngineHarness, store: Store) -> None:
    store.schedule("report", "@every 1h", "mail", 1)
    assert fire_due(store) == 0
    engine.advance(3600)
    assert fire_due(store) == 1
    assert_enqueued(store.queue("mail"), schedule="report", count=1)


def test_time_is_stepped_from_boundary_to_boundary() -> None:
    clock = ManualClock()
    begin = clock.now()
    with MemoryStore(clock=clock) as store:
        store.schedule("fast", "@every 1m", "fast", 1, catch_up="latest")
        store.schedule("slow", "@every 1h", "slow", 1)
        store.schedule("not now", "@every 1m", "slow", 1)
        store.pause("not now")
        assert fire_due(store, by=timedelta(hours=2)) == 122
        assert clock.now() == begin + timedelta(hours=2)
        for job in assert_enqueued(store.queue("fast"), count=120):
            assert job.enqueued_at == job.scheduled_for
        assert fire_due(store, by=30) == 0
        assert clock.now() == begin + timedelta(hours=2, seconds=30)


def test_without_schedules_time_is_stepped_all_the_same() -> None:
    clock = ManualClock()
    end = clock.now() + timedelta(hours=1)
    with MemoryStore(clock=clock) as store:
        assert fire_due(store, by=3600) == 0
    assert clock.now() == end


def test_time_is_stepped_to_the_end_of_the_calendar_and_no_further() -> None:
    clock = ManualClock(datetime(9999, 12, 31, 21, 30, tzinfo=timezone.utc))
    with MemoryStore(clock=clock) as store:
        store.schedule("report", "@every 1h", "mail", 1)
        assert fire_due(store, by=timedelta(days=365)) == 1
    assert clock.now() == datetime.max.replace(tzinfo=timezone.utc)


def test_a_clock_that_goes_on_by_itself_is_not_stepped() -> None:
    with MemoryStore() as store, pytest.raises(TypeError, match="ManualClock"):
        fire_due(store, by=1)


@pytest.mark.parametrize("by", [-1, "60", float("nan"), True])
def test_what_is_no_duration_is_refused_before_anything_fires(by: Any) -> None:
    clock = ManualClock()
    with MemoryStore(clock=clock) as store:
        store.schedule("report", "@every 1h", "mail", 1)
        end = clock.advance(3600)
        with pytest.raises(InvalidOption, match="by must be"):
            fire_due(store, by=by)
        assert store.queue("mail").size() == 0
        assert clock.now() == end
        assert fire_due(store, by=0) == 1


def test_the_clock_of_a_server_is_not_stepped_and_nothing_fires(
    clocked_schemas: Schemas,
) -> None:
    with closing(PostgresHarness(clocked_schemas)) as harness:
        store = harness.open()
        store.schedule("report", "@every 1h", "mail", 1)
        harness.advance(3600)
        with pytest.raises(TypeError, match="ManualClock"):
            fire_due(store, by=60)
        assert store.queue("mail").size() == 0
        assert fire_due(store) == 1
