"""The store clock of the memory engine."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

import pytest

from alkstore import InvalidOption
from alkstore.memory import Clock, ManualClock, SystemClock
from alkstore.memory.clock import LAST, later
from alkstore.stop_token import Parker

NOON = datetime(2030, 1, 1, 12, tzinfo=timezone.utc)


def test_a_manual_clock_stands_still_until_it_is_stepped() -> None:
    clock = ManualClock(NOON)
    assert clock.now() == clock.now() == NOON
    assert clock.advance(1.5) == NOON + timedelta(seconds=1.5)
    assert clock.advance(timedelta(days=2)) == clock.now() == NOON + timedelta(days=2, seconds=1.5)


def test_a_manual_clock_tells_utc_whatever_zone_it_was_started_in() -> None:
    start = datetime(2030, 1, 1, 14, tzinfo=timezone(timedelta(hours=2)))
    assert ManualClock(start).now().isoformat() == "2030-01-01T12:00:00+00:00"


def test_without_a_start_it_begins_at_the_present_time() -> None:
    assert abs(ManualClock().now() - datetime.now(timezone.utc)) < timedelta(minutes=1)


@pytest.mark.parametrize("by", [-1, float("nan"), "1s", None, True, timedelta(days=-1)])
def test_no_clock_goes_back(by: object) -> None:
    clock = ManualClock(NOON)
    with pytest.raises(InvalidOption, match="by must be"):
        clock.advance(by)  # type: ignore[arg-type]
    assert clock.now() == NOON


def test_a_naive_start_is_refused() -> None:
    with pytest.raises(InvalidOption, match="aware"):
        ManualClock(datetime(2030, 1, 1))  # noqa: DTZ001 - it is what is refused


def test_a_step_wakes_whoever_waits_and_nobody_else() -> None:
    clock = ManualClock(NOON)
    waiting, gone = Parker(), Parker()
    clock.attach(waiting)
    clock.attach(gone)
    clock.detach(gone)
    clock.advance(0)
    assert waiting.park(0)
    assert not gone.park(0)


def test_durations_are_rounded_to_whole_microseconds_half_to_even() -> None:
    assert later(NOON, 0.0000005) == NOON
    assert later(NOON, 0.0000015) == NOON + timedelta(microseconds=2)


def test_the_calendar_ends_where_it_ends() -> None:
    assert later(LAST, 1) == later(NOON, 1e15) == LAST
    assert ManualClock(LAST).advance(1) == LAST


def test_both_are_clocks() -> None:
    assert isinstance(ManualClock(), Clock)
    assert isinstance(SystemClock(), Clock)
    assert SystemClock().nap(0.5) == 0.5
    assert ManualClock().nap(0.5) is None
