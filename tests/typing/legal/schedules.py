"""Uses of schedules that every type checker must accept. Checked, never run."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import Any

from typing_extensions import assert_type

from alkstore import (
    LeadershipLost,
    Schedule,
    ScheduleOptions,
    ScheduleQuarantined,
    Scheduler,
    StopToken,
    Store,
    UnknownSchedule,
)
from alkstore.values import Payload

NOON = datetime(2030, 1, 1, 12, tzinfo=timezone.utc)


def a_store_is_a_scheduler(store: Store) -> Scheduler:
    """The part of it that keeps schedules."""
    return store


def registering(scheduler: Scheduler) -> None:
    """Options are keywords, and may be kept in a typed dictionary."""
    assert_type(scheduler.schedule("report", "@every 1h", "mail", None), Schedule)
    scheduler.schedule("report", "@every 1h", "mail", {"kind": "daily"}, priority=2, expires=60)
    scheduler.schedule("report", "@every 1d", "mail", 1, starts_at=NOON, catch_up="latest")
    grid: ScheduleOptions = {
        "priority": 1,
        "expires": timedelta(hours=1),
        "max_attempts": 5,
        "starts_at": NOON,
        "catch_up": "all",
    }
    assert_type(grid["starts_at"], datetime)
    scheduler.schedule(name="report", spec="@every 1h", queue="mail", payload=None, **grid)
    assert_type(scheduler.unschedule("report"), bool)


def handling(scheduler: Scheduler) -> None:
    """Looked at, paused, resumed, and fired by hand."""
    assert_type(scheduler.schedules(), list[Schedule])
    assert_type(scheduler.get_schedule("report"), Schedule | None)
    assert_type(scheduler.pause("report"), bool)
    assert_type(scheduler.resume("report"), bool)
    try:
        assert_type(scheduler.run_now("report"), int)
    except UnknownSchedule as unknown:
        assert_type(unknown, UnknownSchedule)
    except ScheduleQuarantined as damaged:
        assert_type(damaged, ScheduleQuarantined)


def leading(scheduler: Scheduler, stop: StopToken) -> float | None:
    """It blocks, and tells how long the other's lease may last."""
    try:
        scheduler.run_schedules(stop.child())
    except LeadershipLost as lost:
        return assert_type(lost.retry_after, float | None)
    return None


def a_schedule(schedule: Schedule) -> None:
    """A value, as stored."""
    assert_type(schedule.name, str)
    assert_type(schedule.spec, str)
    assert_type(schedule.interval, timedelta)
    assert_type(schedule.queue, str)
    assert_type(schedule.payload, Any)
    assert_type(schedule.raw, bytes)
    assert_type(schedule.stored, Payload)
    assert_type(schedule.priority, int)
    assert_type(schedule.expires, timedelta | None)
    assert_type(schedule.max_attempts, int | None)
    assert_type(schedule.starts_at, datetime | None)
    assert_type(schedule.catch_up, str)
    assert_type(schedule.next_fire_at, datetime | None)
    assert_type(schedule.last_fire_at, datetime | None)
    assert_type(schedule.paused, bool)
    assert_type(schedule.skipped, int)
    assert_type(schedule.quarantine, str | None)
