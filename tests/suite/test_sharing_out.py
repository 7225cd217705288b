"""The suite's processes begin with what takes longest, and all tests are run."""

from __future__ import annotations

from typing import Any, cast

import pytest

from tests.support.sharing_out import shared_out


class Item:
    """What is asked of a test here."""

    def __init__(self, name: str, *, slow: bool) -> None:
        self.name = name
        self._slow = slow

    def get_closest_marker(self, name: str) -> str | None:
        return name if self._slow and name == "slow" else None


def names(count: int, slow: set[int], among: int) -> list[str]:
    items: list[Any] = [
        Item(f"{'s' if number in slow else 'q'}{number}", slow=number in slow)
        for number in range(count)
    ]
    return [cast("Any", item).name for item in shared_out(items, among)]


def test_half_of_the_processes_begin_with_what_takes_longest() -> None:
    assert names(8, {6, 7}, 4) == ["s6", "q0", "s7", "q1", "q2", "q3", "q4", "q5"]
    assert names(7, {0, 5, 6}, 2) == ["s0", "s5", "s6", "q1", "q2", "q3", "q4"]


@pytest.mark.parametrize("among", [1, 2, 3, 4, 7])
@pytest.mark.parametrize("count", [0, 1, 5, 20])
@pytest.mark.parametrize("slow", [set[int](), {0}, {1, 3, 4}, set(range(20))])
def test_each_test_is_there_once(count: int, slow: set[int], among: int) -> None:
    order = names(count, slow, among)
    assert len(order) == count
    assert {int(name[1:]) for name in order} == set(range(count))
