"""Options that are durations (contract section 4): every value, both directions."""

from __future__ import annotations

import math
from datetime import datetime, timedelta, timezone
from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from alkstore.arguments import MAX_SECONDS, seconds, wait_seconds
from alkstore.options import resolve_queue, resolve_schedule
from tests.support.options import (
    FOREIGN,
    LEGAL_DURATIONS,
    LONGEST,
    SHORTEST,
    Resolver,
    enqueue,
    in_seconds,
    refusal,
)

DURATIONS: list[tuple[Resolver, str]] = [
    (enqueue, "delay"),
    (enqueue, "expires"),
    (resolve_queue, "visibility_timeout"),
    (resolve_queue, "base_backoff"),
    (resolve_schedule, "expires"),
]


@given(delay=LEGAL_DURATIONS, expires=LEGAL_DURATIONS)
@example(delay=100, expires=5)
@example(delay=60, expires=60)
@example(delay=timedelta(minutes=1), expires=60.001)
def test_a_job_that_would_expire_before_it_is_due_is_refused(
    delay: float | timedelta, expires: float | timedelta
) -> None:
    given_ = {"delay": delay, "expires": expires}
    if in_seconds(delay) < in_seconds(expires):
        resolved = enqueue(given_)
        assert (resolved.delay, resolved.expires) == (in_seconds(delay), in_seconds(expires))
    else:
        assert "expires must be longer than delay" in refusal(enqueue, given_)


@pytest.mark.parametrize(("resolve", "name"), DURATIONS)
@given(value=LEGAL_DURATIONS)
@example(value=SHORTEST)
@example(value=timedelta(milliseconds=1))
@example(value=MAX_SECONDS)
@example(value=LONGEST)
def test_every_duration_up_to_36500_days_is_taken(
    resolve: Resolver, name: str, value: float | timedelta
) -> None:
    taken = getattr(resolve({name: value}), name)
    assert taken == in_seconds(value)
    assert type(taken) is float


@pytest.mark.parametrize(("resolve", "name"), DURATIONS)
@given(
    value=st.one_of(
        FOREIGN,
        st.floats(max_value=-5e-324),
        st.floats(min_value=MAX_SECONDS, exclude_min=True),
        st.integers(max_value=-1),
        st.integers(min_value=int(MAX_SECONDS) + 1),
        st.timedeltas(max_value=timedelta(microseconds=-1)),
        st.timedeltas(min_value=LONGEST + timedelta(microseconds=1)),
    )
)
@example(value=math.nan)
@example(value=-math.nan)
@example(value=math.inf)
@example(value=-math.inf)
@example(value=True)
@example(value=10**400)
@example(value=-(10**400))
@example(value=10**5000)
@example(value=timedelta.max)
@example(value=timedelta.min)
@example(value="60")
@example(value=Decimal(60))
@example(value=Fraction(60))
@example(value=datetime(2026, 1, 1, tzinfo=timezone.utc))
def test_every_other_duration_is_refused(resolve: Resolver, name: str, value: object) -> None:
    assert name in refusal(resolve, {name: value})


def test_a_delay_may_be_nothing() -> None:
    for nothing in (0, 0.0, -0.0, timedelta(0)):
        assert enqueue({"delay": nothing}).delay == 0
        assert seconds(nothing, "ttl") == 0
        assert wait_seconds(nothing) == 0
    assert wait_seconds(None) is None


@pytest.mark.parametrize(("resolve", "name"), [case for case in DURATIONS if case[1] != "delay"])
def test_other_durations_are_at_least_a_millisecond(resolve: Resolver, name: str) -> None:
    for value in (0, 0.0, -0.0, timedelta(0), 0.0009, timedelta(microseconds=999)):
        assert "0.001" in refusal(resolve, {name: value})
