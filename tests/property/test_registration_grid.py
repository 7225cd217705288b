"""Which grid a registration means: kept, or begun anew (field cases B09 to B12, B15)."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timezone

from hypothesis import given
from hypothesis import strategies as st

from alkstore.options import ScheduleSettings
from alkstore_postgres.scheduler.every import parse_every
from alkstore_postgres.scheduler.instants import (
    FIRST_MICROS,
    LAST_MICROS,
    from_micros,
    to_micros,
)
from alkstore_postgres.scheduler.registration import Registration, next_boundary
from alkstore_postgres.scheduler.row import Row

SECOND = 1_000_000
NOW = to_micros(datetime(2030, 5, 1, tzinfo=timezone.utc))
FIRST, LAST = FIRST_MICROS - 1, LAST_MICROS + 1
TIMES = st.integers(NOW - 10**13, NOW + 10**13).map(from_micros)
SETTINGS = ScheduleSettings(
    priority=0, expires=None, max_attempts=None, starts_at=None, catch_up="all"
)
ROW = Row(
    name="s", spec="@every 60s", queue="q", priority=0, expires=None, max_attempts=None,
    catch_up="all", starts_at=None, next_fire_at=NOW, last_fire_at=None,
    paused=False, skipped=0, quarantine=None, has_payload=True,
)  # fmt: skip
SPELLINGS = ["@every 3600s", "@every 60m", "@every 1h", "@every\t0001h", " @every 1h\n"]


def wanted(spec: str, starts_at: datetime | None = None) -> Registration:
    settings = replace(SETTINGS, starts_at=starts_at)
    return Registration("s", spec, parse_every(spec), "q", b"1", settings)


def micros(instant: datetime | None) -> int | None:
    return None if instant is None else to_micros(instant)


@given(st.sampled_from(SPELLINGS), st.sampled_from(SPELLINGS), TIMES, st.none() | TIMES)
def test_the_same_interval_in_any_spelling_keeps_the_next_boundary(
    old: str, new: str, stored: datetime, starts_at: datetime | None
) -> None:
    row = ROW._replace(spec=old, next_fire_at=to_micros(stored), starts_at=micros(starts_at))
    assert next_boundary(wanted(new, starts_at), row, NOW) == to_micros(stored)


@given(st.integers(1, 10**6), TIMES)
def test_another_interval_starts_anew_from_now_without_a_burst(
    seconds: int, stored: datetime
) -> None:
    row = ROW._replace(spec=f"@every {seconds + 1}s", next_fire_at=to_micros(stored))
    assert next_boundary(wanted(f"@every {seconds}s"), row, NOW) == NOW + seconds * SECOND


@given(st.none() | TIMES, st.none() | TIMES, TIMES)
def test_another_anchor_starts_anew_after_now(
    old: datetime | None, new: datetime | None, stored: datetime
) -> None:
    row = ROW._replace(starts_at=micros(old), next_fire_at=to_micros(stored))
    first = next_boundary(wanted("@every 60s", new), row, NOW)
    if old == new:
        assert first == to_micros(stored)
    else:
        assert first > NOW
        anchor = NOW if new is None else to_micros(new)
        assert (first - anchor) % (60 * SECOND) == 0


@given(st.sampled_from(["banana", "", "@every 0s", None]), TIMES)
def test_a_damaged_spec_has_no_grid_to_keep(spec: str, stored: datetime) -> None:
    row = ROW._replace(spec=spec, next_fire_at=to_micros(stored))
    assert next_boundary(wanted("@every 60s"), row, NOW) == NOW + 60 * SECOND


@given(st.sampled_from([None, FIRST, LAST, -(2**63), 2**63 - 1]))
def test_a_damaged_time_has_no_grid_to_keep(stored: int | None) -> None:
    row = ROW._replace(next_fire_at=stored)
    assert next_boundary(wanted("@every 60s"), row, NOW) == NOW + 60 * SECOND
