"""Options and how they resolve (contract section 4): every value, both directions."""

from __future__ import annotations

import enum
import math
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta, timezone, tzinfo
from decimal import Decimal
from fractions import Fraction
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from alkstore import InvalidOption
from alkstore._typing import override
from alkstore.arguments import MAX_SECONDS, aware_utc, positive_int, seconds, wait_seconds
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

SHORTEST = 0.001
LONGEST = timedelta(days=36_500)


def enqueue(options: Mapping[str, Any]) -> Enqueue:
    return resolve_enqueue(options, QUEUE_DEFAULTS)


Resolver = Callable[[Mapping[str, Any]], object]
RESOLVERS: dict[Resolver, set[str]] = {
    enqueue: {"delay", "run_at", "priority", "expires", "max_attempts"},
    resolve_queue: {"visibility_timeout", "max_attempts", "base_backoff"},
    resolve_schedule: {"priority", "expires", "max_attempts", "starts_at", "catch_up"},
}
DURATIONS: list[tuple[Resolver, str]] = [
    (enqueue, "delay"),
    (enqueue, "expires"),
    (resolve_queue, "visibility_timeout"),
    (resolve_queue, "base_backoff"),
    (resolve_schedule, "expires"),
]
ATTEMPTS: list[Resolver] = [enqueue, resolve_queue, resolve_schedule]
PRIORITIES: list[Resolver] = [enqueue, resolve_schedule]
INSTANTS: list[tuple[Resolver, str]] = [(enqueue, "run_at"), (resolve_schedule, "starts_at")]

LEGAL_DURATIONS = st.one_of(
    st.floats(SHORTEST, MAX_SECONDS),
    st.integers(1, int(MAX_SECONDS)),
    st.timedeltas(timedelta(milliseconds=1), LONGEST),
)
TIME_ZONES: st.SearchStrategy[tzinfo] = st.one_of(
    st.timezones(),
    st.timedeltas(timedelta(hours=-23, minutes=-59), timedelta(hours=23, minutes=59)).map(timezone),
)
# Hypothesis takes its limits without a zone.
NEARLY_ALL = (datetime(1, 1, 3), datetime(9999, 12, 29))  # noqa: DTZ001
EDGES = [edge.replace(tzinfo=timezone.utc) for edge in (datetime.min, datetime.max)]  # noqa: DTZ901
FOREIGN = st.one_of(
    st.text(),
    st.binary(),
    st.booleans(),
    st.complex_numbers(),
    st.decimals(),
    st.fractions(),
    st.lists(st.integers()),
    st.builds(object),
)


def in_seconds(value: float | timedelta) -> float:
    return value.total_seconds() if isinstance(value, timedelta) else float(value)


def refusal(resolve: Resolver, options: Mapping[str, Any]) -> str:
    with pytest.raises(InvalidOption) as refused:
        resolve(options)
    message = str(refused.value)
    assert len(message) < 400
    assert message.isascii()
    return message


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


# Delay and expiry


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


# Durations


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


# Whole numbers


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


# Instants


@pytest.mark.parametrize(("resolve", "name"), INSTANTS)
@given(value=st.datetimes(*NEARLY_ALL, timezones=TIME_ZONES))
def test_every_aware_datetime_becomes_the_same_instant_in_utc(
    resolve: Resolver, name: str, value: datetime
) -> None:
    taken = getattr(resolve({name: value}), name)
    assert taken == value.astimezone(timezone.utc)
    assert taken.tzinfo is timezone.utc
    assert taken.utcoffset() == timedelta(0)


@pytest.mark.parametrize(("resolve", "name"), INSTANTS)
@given(value=st.datetimes() | st.dates() | st.times() | st.integers() | st.floats() | FOREIGN)
def test_everything_but_an_aware_datetime_is_refused(
    resolve: Resolver, name: str, value: object
) -> None:
    assert name in refusal(resolve, {name: value})


def test_the_first_and_the_last_instant_of_utc_are_taken() -> None:
    for edge in EDGES:
        assert enqueue({"run_at": edge}).run_at == edge


@pytest.mark.parametrize(("resolve", "name"), INSTANTS)
@pytest.mark.parametrize(
    "value",
    [
        datetime.max.replace(tzinfo=timezone(timedelta(hours=-1))),
        datetime.min.replace(tzinfo=timezone(timedelta(hours=1))),
        datetime.max.replace(tzinfo=ZoneInfo("America/New_York")),
        datetime.min.replace(tzinfo=ZoneInfo("Asia/Tokyo")),
    ],
    ids=str,
)
def test_an_instant_that_utc_cannot_write_is_refused(
    resolve: Resolver, name: str, value: datetime
) -> None:
    assert "1 to 9999" in refusal(resolve, {name: value})


@given(st.datetimes(timezones=TIME_ZONES))
def test_an_aware_datetime_is_taken_or_refused_and_nothing_else(value: datetime) -> None:
    try:
        expected = value.astimezone(timezone.utc)
    except OverflowError:
        with pytest.raises(InvalidOption):
            aware_utc(value, "run_at")
    else:
        assert aware_utc(value, "run_at") == expected


class Undecided(tzinfo):
    """A zone that knows no offset: its datetimes are naive."""

    @override
    def utcoffset(self, _: datetime | None) -> None:
        return None

    dst = utcoffset

    @override
    def tzname(self, _: datetime | None) -> None:
        return None


def test_a_zone_without_an_offset_is_naive() -> None:
    value = datetime(2026, 1, 1, tzinfo=Undecided())
    assert "naive" in refusal(enqueue, {"run_at": value})


@given(LEGAL_DURATIONS | st.just(0), st.datetimes(timezones=st.just(timezone.utc)))
def test_a_delay_and_a_run_at_exclude_each_other(
    delay: float | timedelta, run_at: datetime
) -> None:
    message = refusal(enqueue, {"delay": delay, "run_at": run_at})
    assert "delay" in message
    assert "run_at" in message
    assert enqueue({"delay": delay, "run_at": None}).delay == in_seconds(delay)
    assert enqueue({"delay": None, "run_at": run_at}).run_at == run_at


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
