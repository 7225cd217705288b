"""A hot loop is impossible, whatever the clocks do (field case B41)."""

from __future__ import annotations

from alkstore_postgres.scheduler.pacing import TURNS_PER_SECOND, Pacing


def slept_over(pacing: Pacing, turns: int) -> float:
    """Take so many turns that achieve nothing; return the seconds that they had to sleep."""
    total = 0.0
    for _ in range(turns):
        debt = pacing.take()
        if debt:
            total += debt
            pacing.slept(debt)
    return total


def test_turns_that_achieve_nothing_are_bounded_per_second() -> None:
    turns = 1_000
    assert slept_over(Pacing(), turns) >= turns / TURNS_PER_SECOND - 1


def test_a_short_burst_is_free() -> None:
    assert slept_over(Pacing(), 5) == 0.0


def test_sleep_fills_the_bucket_up_to_the_burst_only() -> None:
    pacing = Pacing()
    slept_over(pacing, 50)
    pacing.slept(3_600.0)
    assert slept_over(pacing, 5) == 0.0
    assert pacing.take() > 0.0


def test_turns_that_achieve_something_are_free() -> None:
    pacing = Pacing()
    for _ in range(1_000):
        assert pacing.take() == 0.0
        pacing.give_back()
