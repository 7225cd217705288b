"""Options that are instants (contract section 4): every value, both directions."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone, tzinfo
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from alkstore import InvalidOption
from alkstore._typing import override
from alkstore.arguments import aware_utc
from alkstore.options import resolve_schedule
from tests.support.options import FOREIGN, LEGAL_DURATIONS, Resolver, enqueue, in_seconds, refusal

INSTANTS: list[tuple[Resolver, str]] = [(enqueue, "run_at"), (resolve_schedule, "starts_at")]

TIME_ZONES: st.SearchStrategy[tzinfo] = st.one_of(
    st.timezones(),
    st.timedeltas(timedelta(hours=-23, minutes=-59), timedelta(hours=23, minutes=59)).map(timezone),
)
# Hypothesis takes its limits without a zone.
NEARLY_ALL = (datetime(1, 1, 3), datetime(9999, 12, 29))  # noqa: DTZ001
EDGES = [edge.replace(tzinfo=timezone.utc) for edge in (datetime.min, datetime.max)]  # noqa: DTZ901


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
