"""What is known of the wakes of one name decides when one is owed; no clock, no database."""

from __future__ import annotations

from itertools import pairwise

import pytest

from alkstore_postgres.wakes.merging import (
    ASKING,
    BURST,
    LONGEST_LOOK,
    SHORTEST_LOOK,
    SLOW_FACTOR,
    SPARSE,
    WINDOW,
    Merging,
)

LATER = 1000.0


@pytest.fixture
def merging() -> Merging:
    return Merging(0.0)


def test_a_few_enqueues_in_a_row_carry_their_wakes(merging: Merging) -> None:
    assert [merging.spend(0.0) for _ in range(5)] == [True] * int(BURST) + [False] * 2


def test_in_a_stream_one_more_carries_its_wake_for_each_window(merging: Merging) -> None:
    gap = SPARSE / 4
    carried = [merging.spend(number * gap) for number in range(int(LATER))]
    assert carried.count(True) == pytest.approx(BURST + LATER * gap / WINDOW, abs=1)


def test_one_that_comes_alone_always_carries_its_wake(merging: Merging) -> None:
    gap = SPARSE * 1.01
    assert all(merging.spend(number * gap) for number in range(int(LATER)))


def test_where_carrying_wakes_is_slow_it_takes_a_longer_pause(merging: Merging) -> None:
    gap, took = SPARSE * 1.01, 2 * SPARSE / SLOW_FACTOR
    carried = 0
    for number in range(int(LATER)):
        if merging.spend(number * gap):
            carried += 1
            merging.carried(number * gap + took, number)
    assert carried == pytest.approx(BURST + LATER * gap / WINDOW, abs=1)


def test_an_enqueue_that_follows_a_little_later_asks_for_the_job_last_told_of(
    merging: Merging,
) -> None:
    assert merging.ask(0.0) is None
    merging.spend(0.0)
    merging.carried(0.0, 7)
    assert [merging.ask(ASKING * number) for number in (0.9, 1.0)] == [None, 7]
    merging.carried(ASKING, 8)
    assert [merging.ask(ASKING * number) for number in (1.9, 2.0)] == [None, 8]


def test_after_a_question_in_vain_it_asks_ever_more_rarely(merging: Merging) -> None:
    merging.spend(0.0)
    merging.carried(0.0, 7)
    step = ASKING / 10
    asked = [number for number in range(400) if merging.ask(number * step) == 7]
    gaps = [after - before for before, after in pairwise([0, *asked])]
    assert gaps[:5] == pytest.approx([10, 20, 40, 80, WINDOW / step], abs=1)
    assert max(gaps) <= WINDOW / step + 1
    merging.spend(1000 * step)
    merging.carried(1000 * step, 8)
    assert merging.ask(1010 * step) == 8, "of another one nothing is known"


def test_it_does_not_ask_while_others_wait_that_nobody_was_told_of(merging: Merging) -> None:
    merging.spend(0.0)
    merging.carried(0.0, 7)
    merging.add(8)
    assert merging.ask(WINDOW) is None
    assert merging.take(WINDOW) is not None
    merging.answered(WINDOW, (8, True))
    assert merging.ask(2 * WINDOW) == 8


def test_where_carrying_wakes_is_slow_it_asks_more_rarely(merging: Merging) -> None:
    merging.spend(0.0)
    merging.carried(ASKING, 7)
    assert merging.ask(ASKING * SLOW_FACTOR * 0.99) is None
    assert merging.ask(ASKING * SLOW_FACTOR * 1.01) == 7


def test_one_that_asked_and_carried_its_wake_is_the_next_to_ask_for(merging: Merging) -> None:
    merging.spend(0.0)
    merging.carried(0.0, 7)
    assert merging.ask(WINDOW) == 7
    merging.carried(WINDOW, 8)
    assert merging.ask(2 * WINDOW - 0.001) == 8
    # What may wait for others is told of a window after that wake, no sooner.
    merging.add(None)
    assert merging.take(2 * WINDOW - 0.001) is None


def test_a_job_after_a_pause_is_looked_at_at_once(merging: Merging) -> None:
    merging.add(1)
    assert merging.look_at <= 0.0
    assert merging.take(0.0) == ([1], False)


def test_after_a_wake_the_next_look_is_soon(merging: Merging) -> None:
    merging.add(1)
    merging.take(0.0)
    merging.answered(0.0, (1, True))
    assert merging.woken == 1
    assert not merging.owes
    assert merging.look_at == SHORTEST_LOOK


def test_what_waits_behind_a_job_that_nobody_took_is_owed_until_it_is_taken(
    merging: Merging,
) -> None:
    merging.spend(0.0)
    merging.carried(0.0, 1)
    now = 0.0
    merging.add(2)
    looks = 0
    while now + LONGEST_LOOK < WINDOW:
        assert merging.take(now) == ([2], False)
        merging.answered(now, (2, False))
        assert merging.owes
        assert SHORTEST_LOOK <= merging.look_at - now <= LONGEST_LOOK
        now = merging.look_at
        looks += 1
    assert looks < 10
    merging.take(now)
    merging.answered(now, (2, True))  # the first one is gone by now
    assert merging.woken == 2
    assert not merging.owes


def test_what_nobody_heeds_is_told_of_once_a_window(merging: Merging) -> None:
    merging.spend(0.0)
    merging.carried(0.0, 1)
    merging.add(2)
    now, wakes, looks = 0.0, 0, 0
    while now < LATER / 10:
        taken = merging.take(now)
        assert taken is not None
        looks += 1
        wakes += taken[1]
        merging.answered(now, (2, taken[1]))
        if taken[1]:
            merging.add(2)
        now = merging.look_at
    assert wakes <= LATER / 10 / WINDOW
    assert wakes >= LATER / 10 / (WINDOW + 2 * LONGEST_LOOK)
    assert looks <= LATER / 10 / WINDOW * 10


def test_what_somebody_took_meanwhile_is_owed_no_more(merging: Merging) -> None:
    merging.add(1)
    merging.take(0.0)
    merging.answered(0.0, (None, False))
    assert not merging.owes


def test_a_stream_that_others_keep_up_with_is_looked_at_ever_more_rarely(
    merging: Merging,
) -> None:
    now = 0.0
    for _ in range(10):
        merging.add(1)
        assert merging.take(now) is not None
        merging.answered(now, (None, False))
        now = merging.look_at
    merging.add(1)
    merging.take(now)
    merging.answered(now, (None, False))
    assert merging.look_at - now == pytest.approx(LONGEST_LOOK)
    # ... until a pause.
    now += LATER
    merging.add(1)
    merging.take(now)
    merging.answered(now, (None, False))
    assert merging.look_at - now == pytest.approx(2 * SHORTEST_LOOK)


def test_what_is_no_job_that_can_be_claimed_is_told_of_once_a_window(merging: Merging) -> None:
    merging.add(None)
    assert merging.take(0.0) == ([], True)
    merging.answered(0.0, (None, True))
    merging.add(None)
    assert merging.take(SHORTEST_LOOK) is None
    assert merging.look_at == WINDOW
    assert merging.owes
    assert merging.take(WINDOW) == ([], True)
    merging.answered(WINDOW, (None, True))
    assert not merging.owes


def test_a_job_is_looked_for_although_something_else_has_to_wait(merging: Merging) -> None:
    merging.spend(0.0)
    merging.add(None)
    merging.add(7)
    assert merging.take(0.0) == ([7], False)
    merging.answered(0.0, (7, True))
    assert merging.owes


def test_a_job_does_not_wait_for_the_time_of_something_else(merging: Merging) -> None:
    merging.spend(0.0)
    assert not merging.add(None)
    assert merging.take(0.0) is None
    assert merging.look_at == WINDOW
    assert merging.add(7)
    assert merging.look_at < 0.0
    assert not merging.add(8), "once is enough"
    assert merging.take(0.01) == ([7, 8], False)
    merging.answered(0.01, (8, True))
    assert merging.owes


def test_something_else_that_waits_keeps_no_enqueue_from_asking(merging: Merging) -> None:
    merging.spend(0.0)
    merging.carried(0.0, 7)
    merging.add(None)
    assert merging.ask(WINDOW / 2) == 7


def test_at_the_end_everything_is_told(merging: Merging) -> None:
    merging.spend(0.0)
    merging.add(None)
    assert merging.take(0.0, anyway=True) == ([], True)


def test_with_the_database_away_it_does_not_look_in_a_hot_loop(merging: Merging) -> None:
    merging.add(1)
    merging.take(0.0)
    merging.answered(0.0, None)
    assert merging.look_at == WINDOW


def test_only_what_is_quiet_may_be_forgotten(merging: Merging) -> None:
    assert merging.is_quiet(LATER)
    merging.add(1)
    assert not merging.is_quiet(LATER)
    merging.take(LATER, anyway=True)
    merging.answered(LATER, (1, True))
    assert not merging.is_quiet(LATER)
    assert merging.is_quiet(LATER + BURST * WINDOW * 1.1)
