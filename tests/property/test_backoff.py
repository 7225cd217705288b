"""The retry curve (contract section 4, field case B59)."""

from __future__ import annotations

import math
from datetime import timedelta
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from alkstore import MAX_BACKOFF, InvalidOption, retry_delay
from alkstore.arguments import MAX_SECONDS
from alkstore.backoff import stored_delay
from alkstore.options import OUTBOX_STAMPS, QUEUE_DEFAULTS

BASES = st.floats(min_value=0.001, max_value=MAX_SECONDS)
ATTEMPTS = st.one_of(st.integers(1, 60), st.integers(1, 10**9))


def test_the_cap_is_six_hours() -> None:
    assert MAX_BACKOFF == 6 * 60 * 60


def test_the_gaps_of_a_queue_and_of_an_outbox() -> None:
    queue = [retry_delay(QUEUE_DEFAULTS.base_backoff, attempts) for attempts in range(1, 12)]
    assert queue == [60, 120, 240, 480, 960, 1920, 3840, 7680, 15360, 21600, 21600]
    outbox = [retry_delay(OUTBOX_STAMPS.base_backoff, attempts) for attempts in range(1, 6)]
    assert outbox == [5, 10, 20, 40, 80]


@given(BASES, ATTEMPTS)
@example(0.001, 26)
@example(MAX_SECONDS, 1)
@example(60.0, 10**9)
def test_it_is_the_formula_up_to_the_cap(base: float, attempts: int) -> None:
    # Past 2 ** 100 the shortest base is over the cap: the exact power need not be computed.
    exact = Fraction(base) * 2 ** (min(attempts, 100) - 1)
    assert retry_delay(base, attempts) == float(min(exact, Fraction(MAX_BACKOFF)))


@given(BASES, ATTEMPTS, ATTEMPTS)
def test_it_never_decreases(base: float, one: int, other: int) -> None:
    fewer, more = sorted((one, other))
    assert retry_delay(base, fewer) <= retry_delay(base, more)


@given(
    st.floats(min_value=0, allow_nan=False, allow_infinity=False), st.integers(-(10**9), 10**400)
)
def test_it_is_finite_and_within_the_cap_whatever_the_row_says(base: float, attempts: int) -> None:
    gap = stored_delay(base, attempts)
    assert math.isfinite(gap)
    assert 0 <= gap <= MAX_BACKOFF


def test_ten_thousand_attempts_in_a_row() -> None:
    gaps = [retry_delay(1.0, attempts) for attempts in range(1, 10_001)]
    assert gaps == sorted(gaps)
    assert gaps[-1] == MAX_BACKOFF


@given(BASES)
def test_a_row_that_counts_no_attempt_waits_the_first_gap(base: float) -> None:
    assert stored_delay(base, 0) == stored_delay(base, 1) == min(base, MAX_BACKOFF)


@given(BASES, ATTEMPTS)
def test_a_stored_job_waits_as_long_as_the_curve_says(base: float, attempts: int) -> None:
    assert stored_delay(base, attempts) == retry_delay(base, attempts)


def test_the_first_gap_is_told_as_the_option_is() -> None:
    assert retry_delay(timedelta(minutes=1), 2) == retry_delay(60, 2) == 120


@pytest.mark.parametrize(
    "base",
    [0, -1, -0.5, 0.0001, math.nan, math.inf, -math.inf, "60", None, True, 10**400, timedelta(0)],
    ids=str,
)
def test_what_is_no_first_gap_is_refused(base: Any) -> None:
    with pytest.raises(InvalidOption, match="base_backoff must be "):
        retry_delay(base, 1)


@pytest.mark.parametrize("attempts", [0, -1, 1.0, "1", None, True, math.nan], ids=str)
def test_what_is_no_number_of_attempts_is_refused(attempts: Any) -> None:
    with pytest.raises(InvalidOption, match="attempts must be an int of at least 1, not "):
        retry_delay(60, attempts)
