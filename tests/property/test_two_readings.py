"""Two independent readings of section 7: the memory engine's, and the Postgres engine's."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from alkstore import InvalidSpec
from alkstore.memory import grid
from alkstore.memory.clock import LAST
from alkstore.memory.every import read_every
from alkstore_postgres.scheduler import boundaries
from alkstore_postgres.scheduler.every import parse_every
from alkstore_postgres.scheduler.instants import from_micros, to_micros

SPECS = st.one_of(
    st.from_regex(r"[ \t\r\n]?@every[ \t]{1,2}[0-9]{1,11}[smhd]\s?", fullmatch=True),
    st.lists(
        st.sampled_from(["@every", " ", "\t", "\n", "\x0b", "\xa0", "0", "7", "36500", "s", "d"])
        | st.characters(),
        max_size=6,
    ).map("".join),
)
MICROSECOND = timedelta(microseconds=1)
INSTANTS = st.datetimes(
    min_value=grid.FIRST.replace(tzinfo=None) + MICROSECOND,
    max_value=LAST.replace(tzinfo=None) - MICROSECOND,
).map(lambda instant: instant.replace(tzinfo=LAST.tzinfo))
INTERVALS = st.one_of(st.integers(1, 100), st.integers(1, 36_500 * 86_400)).map(
    lambda seconds: timedelta(seconds=seconds)
)


def outcome(read: object, spec: str) -> float | None:
    assert callable(read)
    try:
        value = read(spec)
    except InvalidSpec:
        return None
    return value.total_seconds() if isinstance(value, timedelta) else float(value)


@given(SPECS)
@example("@every 36500d")
@example("@every 3153600001s")
def test_they_read_every_spec_alike(spec: str) -> None:
    assert outcome(read_every, spec) == outcome(parse_every, spec)


@st.composite
def cases(draw: st.DrawFn) -> tuple[datetime, timedelta, datetime]:
    """A boundary, an interval and a now: close together, or anywhere."""
    boundary, interval = draw(INSTANTS), draw(INTERVALS)
    if draw(st.booleans()):
        return boundary, interval, draw(INSTANTS)
    passed = draw(st.integers(-2, 70) | st.integers(9_990, 10_010) | st.integers(0, 10**8))
    offset = draw(st.sampled_from([-MICROSECOND, timedelta(0), MICROSECOND]) | st.just(interval))
    try:
        return boundary, interval, boundary + passed * interval + offset
    except OverflowError:
        return boundary, interval, boundary


@given(cases(), st.booleans())
@example((LAST - 2 * MICROSECOND, timedelta(seconds=1), LAST - MICROSECOND), False)
def test_they_owe_a_schedule_the_same(
    case: tuple[datetime, timedelta, datetime], latest: bool
) -> None:
    boundary, interval, now = case
    micros = (to_micros(boundary), interval // MICROSECOND, to_micros(now))
    try:
        expected = boundaries.due(*micros, latest=latest)
    except boundaries.NoBoundaryLeft:
        with pytest.raises(grid.EndOfCalendarError):
            grid.owed(boundary, interval, now, latest=latest)
        return
    owed = grid.owed(boundary, interval, now, latest=latest)
    assert owed.fires == [from_micros(fire) for fire in expected.fires]
    assert owed.goes_on == from_micros(expected.next_boundary)
    assert owed.skipped == expected.skipped
