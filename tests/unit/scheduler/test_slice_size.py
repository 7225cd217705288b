"""How many schedules a slice takes, for servers of any speed and at any distance."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from alkstore_postgres.scheduler.slice_size import FIRST_ROWS, SliceSize

Cost = Callable[[int], float]
"""How many seconds so many rows take."""

LIMITS = st.floats(0.1, 15.0)
SHARES = st.floats(0.0, 1.0)


def worked_off(due: int, size: SliceSize, limit: float, cost: Cost) -> tuple[list[float], int]:
    """Work off so many rows; return how long the slices took, and how many failed."""
    took: list[float] = []
    failed = 0
    while due:
        size.taken = min(size.rows, due)
        seconds = cost(size.taken)
        if seconds > limit:
            failed += 1
            assert failed < 100
            size.failed()
            continue
        due -= size.taken
        took.append(seconds)
        size.took(seconds, full=due > 0)
    return took, failed


@pytest.mark.parametrize("fixed", [0.0, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0])
@pytest.mark.parametrize("per_row", [0.0, 1e-6, 5e-5, 2e-4])
def test_a_fixed_cost_does_not_make_slices_small(fixed: float, per_row: float) -> None:
    took, failed = worked_off(10_000, SliceSize(2.5), 2.5, lambda rows: fixed + per_row * rows)
    assert len(took) <= 25
    assert failed == 0


@given(limit=LIMITS, share=SHARES, rows_share=SHARES)
def test_however_large_the_fixed_cost_is_under_the_limit(
    limit: float, share: float, rows_share: float
) -> None:
    fixed, per_row = limit * 0.85 * share, limit * 0.1 * rows_share / FIRST_ROWS
    took, failed = worked_off(10_000, SliceSize(limit), limit, lambda rows: fixed + per_row * rows)
    assert len(took) <= 25
    assert failed == 0


@given(shares=st.lists(SHARES, min_size=1, max_size=30))
def test_a_busy_machine_alone_makes_no_slice_smaller_than_the_first(shares: list[float]) -> None:
    """Times that jump, all of them well within the limit."""
    size = SliceSize(2.5)
    for share in shares:
        size.taken = size.rows
        size.took(1.25 * share, full=True)
        assert size.rows >= FIRST_ROWS


@given(limit=LIMITS, slowness=st.floats(0.0005, 0.45))
def test_a_server_that_is_slow_per_row_gets_slices_that_end_in_time(
    limit: float, slowness: float
) -> None:
    per_row = limit * slowness
    took, failed = worked_off(2_000, SliceSize(limit), limit, lambda rows: per_row * rows)
    assert failed <= math.log2(FIRST_ROWS) + 1
    assert max(took[2:]) <= limit / 2 + 1e-9


def test_a_server_that_was_slow_for_a_while_gets_large_slices_again() -> None:
    size = SliceSize(2.5)
    worked_off(100, size, 2.5, lambda rows: 0.5 * rows)
    assert size.rows < 8
    took, _ = worked_off(10_000, size, 2.5, lambda rows: 1e-5 * rows)
    assert len(took) <= 25


def test_quick_slices_grow_up_to_a_bound_and_only_while_there_is_more() -> None:
    size = SliceSize(2.5)
    size.taken = size.rows
    size.took(0.001, full=False)
    assert size.rows == FIRST_ROWS
    for _ in range(20):
        size.taken = size.rows
        size.took(0.001, full=True)
    assert size.rows == 4_000


def test_a_failure_before_any_row_says_nothing_about_the_size() -> None:
    size = SliceSize(2.5)
    for _ in range(10):
        size.taken = 0
        size.failed()
    assert size.rows == FIRST_ROWS


@pytest.mark.parametrize("seconds", [7_200.0, math.inf, math.nan])
def test_a_time_that_cannot_be_is_not_believed(seconds: float) -> None:
    size = SliceSize(2.5)
    size.taken = size.rows
    size.took(seconds, full=True)
    assert size.rows == FIRST_ROWS
