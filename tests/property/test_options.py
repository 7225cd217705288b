"""Options and how they resolve (contract section 4): defaults, stamps, and what is no option."""

from __future__ import annotations

import enum
from datetime import timedelta

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from alkstore._typing import override
from alkstore.options import (
    MAX_ATTEMPTS_LIMIT,
    OUTBOX_STAMPS,
    QUEUE_DEFAULTS,
    Enqueue,
    ScheduleSettings,
    Stamps,
    resolve_enqueue,
    resolve_queue,
    resolve_schedule,
)
from tests.support.options import (
    FOREIGN,
    LEGAL_DURATIONS,
    RESOLVERS,
    Resolver,
    enqueue,
    in_seconds,
    refusal,
)

# Defaults


def test_the_defaults_are_those_of_the_contract() -> None:
    assert resolve_queue({}) == Stamps(visibility_timeout=300, max_attempts=3, base_backoff=60)
    assert Stamps(visibility_timeout=60, max_attempts=5, base_backoff=5) == OUTBOX_STAMPS
    assert enqueue({}) == Enqueue(
        delay=0, run_at=None, priority=0, expires=None, stamps=QUEUE_DEFAULTS
    )
    assert resolve_schedule({}) == ScheduleSettings(
        priority=0, expires=None, max_attempts=None, starts_at=None, catch_up="all"
    )


@pytest.mark.parametrize("resolve", RESOLVERS)
def test_none_counts_as_not_given(resolve: Resolver) -> None:
    assert resolve(dict.fromkeys(RESOLVERS[resolve])) == resolve({})


@given(
    visibility_timeout=LEGAL_DURATIONS,
    max_attempts=st.integers(1, MAX_ATTEMPTS_LIMIT),
    base_backoff=LEGAL_DURATIONS,
    override=st.one_of(st.none(), st.integers(1, MAX_ATTEMPTS_LIMIT)),
)
def test_a_job_is_stamped_with_its_queues_options_and_its_own_budget(
    visibility_timeout: float | timedelta,
    max_attempts: int,
    base_backoff: float | timedelta,
    override: int | None,
) -> None:
    stamps = resolve_queue(
        {
            "visibility_timeout": visibility_timeout,
            "max_attempts": max_attempts,
            "base_backoff": base_backoff,
        }
    )
    expected = Stamps(in_seconds(visibility_timeout), max_attempts, in_seconds(base_backoff))
    assert stamps == expected
    job = resolve_enqueue({} if override is None else {"max_attempts": override}, stamps)
    assert job.stamps == Stamps(
        expected.visibility_timeout,
        max_attempts if override is None else override,
        expected.base_backoff,
    )


@given(st.integers(1, MAX_ATTEMPTS_LIMIT))
def test_only_the_budget_of_an_outbox_can_be_set(budget: int) -> None:
    resolved = resolve_enqueue({"max_attempts": budget}, OUTBOX_STAMPS)
    assert resolved.stamps == Stamps(60, budget, 5)


# Unknown options


@given(st.text(), st.sampled_from(list(RESOLVERS)), st.none() | st.integers(-3, 3))
@example("visibility_timeout", enqueue, 1)
@example("run_at", resolve_schedule, None)
@example("delay", resolve_queue, 1)
@example("tenant", enqueue, 1)
def test_every_unknown_option_is_refused_even_as_none(
    name: str, resolve: Resolver, value: int | None
) -> None:
    if name in RESOLVERS[resolve]:
        return
    message = refusal(resolve, {name: value})
    assert all(known in message for known in RESOLVERS[resolve])


# Catch-up


class Catch(str, enum.Enum):
    LATEST = "latest"


def test_both_ways_to_catch_up_are_taken() -> None:
    for value in ("all", "latest", Catch.LATEST):
        taken = resolve_schedule({"catch_up": value}).catch_up
        assert taken == value
        assert type(taken) is str


@given(st.one_of(FOREIGN, st.integers(), st.floats()))
@example("ALL")
@example("none")
@example("")
def test_every_other_way_to_catch_up_is_refused(value: object) -> None:
    if value in ("all", "latest"):
        return
    message = refusal(resolve_schedule, {"catch_up": value})
    assert "'all' or 'latest'" in message


# Messages


class Secret:
    """A value whose text must stay where it is."""

    @override
    def __repr__(self) -> str:
        return "hunter2"


@pytest.mark.parametrize("resolve", RESOLVERS)
def test_a_refusal_shows_plain_scalars_only(resolve: Resolver) -> None:
    for name in RESOLVERS[resolve]:
        for value in (Secret(), {"password": "hunter2"}, ["hunter2"], b"hunter2", ("hunter2",)):
            assert "hunter2" not in refusal(resolve, {name: value})


def test_a_refusal_stays_short_whatever_was_given() -> None:
    assert len(refusal(enqueue, {"delay": "x" * 10**6})) < 200
    assert len(refusal(enqueue, {"x" * 10**6: 1})) < 200
    assert refusal(enqueue, {"delay": "\ud800\0\n"}).isprintable()
