"""A place among the dead letters that cannot be one is refused alike by both engines."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest

from alkstore import DeadJob, InvalidOption, Store


@pytest.fixture
def letter(store: Store) -> DeadJob:
    """Return the latest of two dead letters."""
    queue = store.queue("mail")
    queue.enqueue_many([1, 2])
    for handle in queue.claim("worker", 2):
        handle.fail("no")
    return queue.dead()[0]


@pytest.mark.parametrize(
    "damage",
    [
        {"died_at": None},
        {"died_at": "yesterday"},
        {"died_at": datetime(2026, 1, 1)},  # noqa: DTZ001 - a naive one, on purpose
        {"died_at": datetime.max.replace(tzinfo=timezone(timedelta(hours=-2)))},
        {"id": "x"},
        {"id": None},
        {"id": True},
        {"id": 0},
        {"id": 2**63},
    ],
    ids=str,
)
def test_a_place_that_cannot_be_one_is_refused(
    store: Store, letter: DeadJob, damage: dict[str, Any]
) -> None:
    with pytest.raises(InvalidOption, match="after"):
        store.queue("mail").dead(10, replace(letter, **damage))


def test_a_place_is_the_same_in_any_time_zone(store: Store, letter: DeadJob) -> None:
    there = letter.died_at.astimezone(timezone(timedelta(hours=5)))
    found = store.queue("mail").dead(10, replace(letter, died_at=there))
    assert found == store.queue("mail").dead(10, letter)
    assert len(found) == 1
