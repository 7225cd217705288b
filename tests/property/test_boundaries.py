"""Boundary math against a brute-force model (contract section 7)."""

from __future__ import annotations

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from alkstore_postgres.scheduler.boundaries import (
    MAX_CATCH_UP,
    NoBoundaryLeft,
    due,
    first_after,
    new_grid,
)
from alkstore_postgres.scheduler.instants import LAST_MICROS, from_micros, is_sound, to_micros

SECOND = 1_000_000
LONGEST = 36_500 * 86_400 * SECOND
FIRST_MICROS = -62_135_596_800 * SECOND + 1

INSTANTS = st.integers(FIRST_MICROS, LAST_MICROS)
INTERVALS = st.one_of(
    st.integers(1, LONGEST // SECOND).map(SECOND.__mul__), st.sampled_from([SECOND, LONGEST])
)


def model(boundary: int, interval: int, now: int) -> tuple[list[int], int]:
    """Every boundary up to *now*, and the next one, by walking the grid."""
    passed = []
    while boundary <= now:
        passed.append(boundary)
        boundary += interval
    return passed, boundary


@st.composite
def near(draw: st.DrawFn) -> tuple[int, int, int]:
    """A grid that *now* is at most some hundred boundaries past."""
    interval = draw(st.integers(1, 50) | st.integers(1, 10**9))
    boundary = draw(st.integers(-(10**15), 10**15))
    steps = draw(st.integers(-2, 200))
    offset = draw(st.sampled_from([-1, 0, 1]) | st.integers(0, interval))
    return boundary, interval, boundary + steps * interval + offset


@given(near())
def test_all_catches_up_the_oldest_64_in_order_and_skips_the_rest(
    case: tuple[int, int, int],
) -> None:
    boundary, interval, now = case
    passed, after = model(boundary, interval, now)
    owed = due(boundary, interval, now, latest=False)
    assert list(owed.fires) == passed[:MAX_CATCH_UP]
    assert owed.skipped == len(passed[MAX_CATCH_UP:])
    assert owed.next_boundary == after


@given(near())
def test_latest_fires_the_newest_missed_boundary_alone(case: tuple[int, int, int]) -> None:
    boundary, interval, now = case
    passed, after = model(boundary, interval, now)
    owed = due(boundary, interval, now, latest=True)
    assert list(owed.fires) == passed[-1:]
    assert owed.skipped == len(passed[:-1])
    assert owed.next_boundary == after


@given(INSTANTS, INTERVALS, INSTANTS, st.booleans())
def test_wherever_the_grid_lies_nothing_overflows_or_leaves_it(
    boundary: int, interval: int, now: int, latest: bool
) -> None:
    try:
        owed = due(boundary, interval, now, latest=latest)
    except NoBoundaryLeft:
        assert now + interval > LAST_MICROS
        return
    assert owed.next_boundary > now or owed.next_boundary == boundary
    assert is_sound(from_micros(owed.next_boundary))
    assert (owed.next_boundary - boundary) % interval == 0
    assert owed.next_boundary - interval <= now or owed.next_boundary == boundary
    assert len(owed.fires) <= MAX_CATCH_UP
    assert list(owed.fires) == sorted(set(owed.fires))
    for fire in owed.fires:
        assert boundary <= fire <= now
        assert (fire - boundary) % interval == 0
        assert is_sound(from_micros(fire))
    assert len(owed.fires) + owed.skipped == (owed.next_boundary - boundary) // interval


@given(
    st.integers(-(10**12), 10**12),
    st.integers(1, 10**7),
    st.lists(st.integers(0, 10**9), min_size=1, max_size=30),
    st.booleans(),
)
def test_over_any_series_of_ticks_each_boundary_fires_or_is_skipped_exactly_once(
    start: int, interval: int, gaps: list[int], latest: bool
) -> None:
    boundary, now, skipped = start, start - 1, 0
    fired: list[int] = []
    for gap in gaps:
        now += gap
        owed = due(boundary, interval, now, latest=latest)
        fired += owed.fires
        skipped += owed.skipped
        boundary = owed.next_boundary
    assert len(fired) == len(set(fired))
    assert fired == sorted(fired)
    assert all((fire - start) % interval == 0 and fire <= now for fire in fired)
    assert boundary > now
    assert len(fired) + skipped == (boundary - start) // interval
    # Another look at the same time finds nothing: a second tick cannot fire again.
    again = due(boundary, interval, now, latest=latest)
    assert again.fires == ()
    assert again.skipped == 0
    assert again.next_boundary == boundary


@given(INSTANTS, INTERVALS, INSTANTS)
def test_the_first_boundary_after_now_is_on_the_grid_and_never_before_the_stored_one(
    boundary: int, interval: int, now: int
) -> None:
    assume(max(boundary, now + interval) <= LAST_MICROS)
    after = first_after(boundary, interval, now)
    assert after > now
    assert after >= boundary
    assert (after - boundary) % interval == 0
    assert after == boundary or after - interval <= now


@given(INTERVALS, INSTANTS)
def test_a_grid_without_an_anchor_begins_one_interval_from_now(interval: int, now: int) -> None:
    assume(now + interval <= LAST_MICROS)
    assert new_grid(interval, None, now) == now + interval


@given(INTERVALS, INSTANTS, INSTANTS)
def test_an_anchored_grid_begins_at_the_anchor_or_at_the_first_boundary_after_now(
    interval: int, starts_at: int, now: int
) -> None:
    assume(now + interval <= LAST_MICROS)
    first = new_grid(interval, starts_at, now)
    if starts_at > now:
        assert first == starts_at
    else:
        assert now < first <= now + interval
        assert (first - starts_at) % interval == 0
    # Nothing before the registration is made up for.
    assert due(first, interval, now, latest=False).fires == ()


def test_the_year_9999_ends_a_grid_with_a_typed_refusal() -> None:
    with pytest.raises(NoBoundaryLeft):
        due(LAST_MICROS, LONGEST, LAST_MICROS, latest=False)
    assert due(LAST_MICROS - SECOND, SECOND, LAST_MICROS - SECOND, latest=False).next_boundary == (
        LAST_MICROS
    )


@given(INSTANTS)
def test_instants_survive_the_way_to_a_datetime_and_back(micros: int) -> None:
    assert to_micros(from_micros(micros)) == micros
    assert is_sound(from_micros(micros))
