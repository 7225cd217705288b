"""Releases go together, and one by one where that is not possible."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import cast

import pytest

from alkstore.errors import DatabaseError
from alkstore.memory import MemoryStore
from alkstore.memory.queue import MemoryQueue
from alkstore.runners.claims import Claims
from alkstore.runners.settlement import Settlement
from alkstore.runners.status import Status
from alkstore.traits import JobHandle, Queue


class Plain:
    """A queue of an engine that knows the trait and nothing else."""

    def __init__(self, queue: Queue) -> None:
        self._queue = queue

    def ack_many(self, handles: Iterable[JobHandle]) -> int:
        return self._queue.ack_many(handles)


@pytest.fixture
def queue() -> Iterator[Queue]:
    """Return a queue of thirty jobs."""
    with MemoryStore() as store:
        queue = store.queue("mail")
        queue.enqueue_many(range(30))
        yield queue


class Released:
    """Claims of all jobs of a queue, which are to be released through *through*."""

    def __init__(self, queue: Queue, through: Queue) -> None:
        self.claims, self.status = Claims(), Status("worker")
        self.settlement = Settlement(through, self.claims, self.status)
        self.claims.admit(queue.claim("w", 30))
        self.claims.close()


def test_an_engine_that_cannot_release_many_releases_one_by_one(queue: Queue) -> None:
    released = Released(queue, cast("Queue", Plain(queue)))
    released.settlement.finish()
    assert released.claims.in_hand == 0
    assert queue.stats().ready == 30
    assert released.status.failures == 0


def test_there_too_a_handler_that_goes_on_can_see_that_its_claim_is_gone(queue: Queue) -> None:
    released = Released(queue, cast("Queue", Plain(queue)))
    held = released.claims.all()[0]
    held.given_up = True
    released.settlement.finish()
    assert (held.handle.lost, held.handle.settled) == (True, False)
    assert queue.stats().ready == 30


def test_one_that_cannot_be_released_keeps_none_of_the_others(
    queue: Queue, monkeypatch: pytest.MonkeyPatch
) -> None:
    released = Released(queue, queue)
    damaged = released.claims.all()[7].handle
    release = type(damaged).release

    def refuse(*_: object) -> int:
        raise ValueError("damaged")

    monkeypatch.setattr(MemoryQueue, "release_many", refuse)
    monkeypatch.setattr(
        type(damaged), "release", lambda one: refuse() if one is damaged else release(one)
    )
    released.settlement.finish()
    assert [held.handle for held in released.claims.all()] == [damaged]
    assert queue.stats().ready == 29
    assert str(released.status.last_error) == "damaged"


def test_an_outage_is_found_out_once_for_all_of_them(
    queue: Queue, monkeypatch: pytest.MonkeyPatch
) -> None:
    tries: list[int] = []

    def away(_: MemoryQueue, handles: list[JobHandle]) -> int:
        tries.append(len(handles))
        raise DatabaseError("away", retryable=True)

    released = Released(queue, queue)
    with monkeypatch.context() as patch:
        patch.setattr(MemoryQueue, "release_many", away)
        released.settlement.finish()
    assert tries == [30]
    assert released.claims.in_hand == 30
    for held in released.claims.all():
        held.try_at = 0.0
    released.settlement.finish()
    assert released.claims.in_hand == 30, "at the end what failed is not tried again"
    released.settlement.turn()
    assert released.claims.in_hand == 0
    assert queue.stats().ready == 30
