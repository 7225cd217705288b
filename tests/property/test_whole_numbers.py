"""Options that are whole numbers (contract section 4): every value, both directions."""

from __future__ import annotations

import enum

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from alkstore import InvalidOption
from alkstore.arguments import positive_int
from alkstore.options import (
    MAX_ATTEMPTS_LIMIT,
    Enqueue,
    ScheduleSettings,
    Stamps,
    resolve_queue,
    resolve_schedule,
)
from tests.support.options import FOREIGN, Resolver, enqueue, refusal

ATTEMPTS: list[Resolver] = [enqueue, resolve_queue, resolve_schedule]
PRIORITIES: list[Resolver] = [enqueue, resolve_schedule]


class Level(enum.IntEnum):
    HIGH = 7


@pytest.mark.parametrize("resolve", ATTEMPTS)
@given(value=st.integers(1, MAX_ATTEMPTS_LIMIT))
@example(value=1)
@example(value=2**31 - 1)
@example(value=Level.HIGH)
def test_every_budget_from_one_on_is_taken(resolve: Resolver, value: int) -> None:
    resolved = resolve({"max_attempts": value})
    taken = resolved.stamps if isinstance(resolved, Enqueue) else resolved
    assert isinstance(taken, (Stamps, ScheduleSettings))
    assert taken.max_attempts == value
    assert type(taken.max_attempts) is int


@pytest.mark.parametrize("resolve", ATTEMPTS)
@given(
    value=st.one_of(
        FOREIGN,
        st.floats(),
        st.integers(max_value=0),
        st.integers(min_value=MAX_ATTEMPTS_LIMIT + 1),
    )
)
@example(value=0)
@example(value=2**31)
@example(value=10**5000)
@example(value=True)
@example(value=3.0)
def test_every_other_budget_is_refused(resolve: Resolver, value: object) -> None:
    assert "max_attempts" in refusal(resolve, {"max_attempts": value})


@pytest.mark.parametrize("resolve", PRIORITIES)
@given(value=st.integers(-32_768, 32_767))
@example(value=-32_768)
@example(value=32_767)
@example(value=Level.HIGH)
def test_every_priority_of_sixteen_bits_is_taken(resolve: Resolver, value: int) -> None:
    resolved = resolve({"priority": value})
    assert isinstance(resolved, (Enqueue, ScheduleSettings))
    assert resolved.priority == value
    assert type(resolved.priority) is int


@pytest.mark.parametrize("resolve", PRIORITIES)
@given(
    value=st.one_of(
        FOREIGN, st.floats(), st.integers(max_value=-32_769), st.integers(min_value=32_768)
    )
)
@example(value=-32_769)
@example(value=32_768)
@example(value=False)
@example(value=10**5000)
@example(value=-(10**5000))
def test_every_other_priority_is_refused(resolve: Resolver, value: object) -> None:
    assert "priority" in refusal(resolve, {"priority": value})


@given(st.integers(1, 500))
def test_a_count_is_bounded_by_its_own_limit(value: int) -> None:
    assert positive_int(value, "limit", most=value) == value
    with pytest.raises(InvalidOption, match="limit"):
        positive_int(value + 1, "limit", most=value)
