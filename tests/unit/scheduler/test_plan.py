"""What a slice decides from the rows it read."""

from __future__ import annotations

import math
from datetime import datetime, timezone
from typing import Any

import pytest

from alkstore_postgres.scheduler.instants import FIRST_MICROS, LAST_MICROS, to_micros
from alkstore_postgres.scheduler.plan import plan
from alkstore_postgres.scheduler.row import MAX_SKIPPED, Row, fault

NOW = datetime(2030, 5, 1, 12, 0, tzinfo=timezone.utc)
NOW_MICROS = to_micros(NOW)
FIRST, LAST = -(2**63), 2**63 - 1
BEFORE, AFTER = FIRST_MICROS - 1, LAST_MICROS + 1
DAY = 86_400_000_000
ROW = Row(
    name="s", spec="@every 60s", queue="q", priority=0, expires=None, max_attempts=None,
    catch_up="all", starts_at=None, next_fire_at=NOW_MICROS, last_fire_at=None, paused=False,
    skipped=0, quarantine=None, has_payload=True,
)  # fmt: skip


def test_a_sound_row_has_no_fault() -> None:
    assert fault(ROW) is None
    assert fault(ROW._replace(expires=1.5, max_attempts=7, starts_at=NOW_MICROS, skipped=3)) is None


@pytest.mark.parametrize(
    ("column", "value", "reason"),
    [
        ("name", "__alkstore_x", "reserved schedule name"),
        ("spec", "banana", "invalid spec"),
        ("spec", "@every 0s", "interval is zero"),
        ("spec", "@every -5m", "invalid spec"),
        ("spec", "@every 999999999h", "too long"),
        ("spec", None, "a str is needed"),
        ("queue", "", "invalid queue name"),
        ("queue", "__alkstore_outbox:x", "reserved queue name"),
        ("queue", "x" * 201, "200 bytes"),
        ("queue", None, "a str is needed"),
        ("has_payload", False, "payload is NULL"),
        ("priority", None, "priority"),
        ("priority", 32_768, "priority"),
        ("priority", -32_769, "priority"),
        ("expires", -1.0, "expires"),
        ("expires", 0.0, "expires"),
        ("expires", math.nan, "expires"),
        ("expires", math.inf, "expires"),
        ("expires", 1e300, "expires"),
        ("max_attempts", 0, "max_attempts"),
        ("max_attempts", -3, "max_attempts"),
        ("max_attempts", 2**31, "max_attempts"),
        ("catch_up", "some", "catch_up"),
        ("catch_up", None, "catch_up"),
        ("starts_at", LAST, "starts_at"),
        ("next_fire_at", None, "next_fire_at is NULL"),
        ("next_fire_at", FIRST, "next_fire_at is infinite"),
        ("next_fire_at", LAST, "next_fire_at is infinite"),
        ("next_fire_at", BEFORE, "next_fire_at is infinite"),
        ("next_fire_at", AFTER, "next_fire_at is infinite"),
        ("starts_at", BEFORE, "starts_at"),
        ("paused", None, "paused is NULL"),
    ],
)
def test_each_damaged_column_is_a_fault_with_its_reason(
    column: str, value: Any, reason: str
) -> None:
    assert reason in str(fault(ROW._replace(**{column: value})))


@pytest.mark.parametrize(
    ("column", "value"), [("skipped", None), ("skipped", -5), ("last_fire_at", LAST)]
)
def test_what_does_not_keep_a_row_from_firing_is_no_fault(column: str, value: Any) -> None:
    assert fault(ROW._replace(**{column: value})) is None


def test_damaged_rows_are_set_aside_and_the_others_fire() -> None:
    rows = [ROW._replace(name="bad", spec="banana"), ROW._replace(name="good")]
    made = plan(rows, NOW_MICROS, 100)
    assert [(fault.number, fault.name) for fault in made.faults] == [(0, "bad")]
    assert [firing.name for firing in made.firings] == ["good"]
    assert not made.left


def test_a_row_of_the_wrong_type_is_set_aside_too() -> None:
    odd: Any = "soon"
    assert "unexpected" in plan([ROW._replace(expires=odd)], NOW_MICROS, 100).faults[0].reason


def test_a_slice_takes_no_further_schedule_once_it_has_enough_fires() -> None:
    long_ago = NOW_MICROS - DAY
    rows = [ROW._replace(name=str(number), next_fire_at=long_ago) for number in range(5)]
    made = plan(rows, NOW_MICROS, 100)
    assert [len(firing.fires) for firing in made.firings] == [64, 64]
    assert made.left


def test_a_grid_that_ends_with_the_calendar_is_set_aside_unfired() -> None:
    made = plan([ROW._replace(next_fire_at=LAST_MICROS)], LAST_MICROS, 100)
    assert made.firings == []
    assert "year 9999" in made.faults[0].reason


def test_the_count_of_skipped_boundaries_never_overflows() -> None:
    row = ROW._replace(next_fire_at=NOW_MICROS - DAY, skipped=MAX_SKIPPED)
    (firing,) = plan([row], NOW_MICROS, 100).firings
    assert firing.passed_over == 24 * 60 + 1 - 64
    assert firing.skipped == MAX_SKIPPED
