"""How far ahead of its handlers a worker claims."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from alkstore.runners.pace import MOST_AHEAD, Pace
from alkstore.runners.pause import LONGEST_PAUSE, pause


def test_slow_handlers_get_nothing_ahead() -> None:
    pace = Pace(0.0)
    assert [pace.ahead(n, n / 40) for n in range(1, 100)] == [0] * 99


def test_quick_handlers_get_what_they_finish_in_twenty_milliseconds() -> None:
    pace = Pace(0.0)
    assert pace.ahead(1_000, 0.1) == 200


def test_a_pause_in_the_work_ends_it() -> None:
    pace = Pace(0.0)
    pace.ahead(1_000, 0.1)
    assert pace.ahead(1_001, 10.0) == 0


@given(st.lists(st.tuples(st.integers(0, 10**6), st.floats(0, 1e6)), max_size=50))
def test_it_is_never_negative_and_never_much(steps: list[tuple[int, float]]) -> None:
    pace = Pace(0.0)
    finished, now = 0, 0.0
    for more, later in steps:
        finished += more
        now += later
        assert 0 <= pace.ahead(finished, now) <= MOST_AHEAD


@given(st.integers(1, 10**9))
def test_a_pause_is_never_zero_and_never_long(failures: int) -> None:
    assert 0.05 <= pause(failures) <= LONGEST_PAUSE


def test_after_a_pause_it_begins_anew() -> None:
    pace = Pace(0.0)
    assert pace.ahead(1_000, 1.0) == 20
    pace.begin_anew(1_500, 1.1)
    assert pace.ahead(1_500, 1.105) == 0
    assert pace.ahead(1_600, 1.2) == 20
