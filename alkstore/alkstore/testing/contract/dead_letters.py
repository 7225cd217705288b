"""Section 5: dead letters."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest

from alkstore.errors import InvalidOption
from alkstore.testing.contract.base import Contract, boundary, claim, live, spanning
from alkstore.testing.harness import EngineHarness
from alkstore.traits import Queue, Store
from alkstore.values import DeadJob

NO_PLACES: list[dict[str, Any]] = [
    {"died_at": None},
    {"died_at": "yesterday"},
    {"died_at": datetime(2026, 1, 1)},  # noqa: DTZ001 - a naive one, on purpose
    {"died_at": datetime.max.replace(tzinfo=timezone(timedelta(hours=-2)))},
    {"id": "x"},
    {"id": None},
    {"id": True},
    {"id": 0},
    {"id": 2**63},
]
"""What no dead letter has."""


Death = Callable[[EngineHarness, Queue], object]
"""Makes the one job of a queue, which has one attempt and 900 s, a dead letter."""


def _lapse(engine: EngineHarness, queue: Queue) -> None:
    claim(queue)
    engine.advance(301)
    assert queue.claim("worker") == []


def _expire(engine: EngineHarness, queue: Queue) -> None:
    engine.advance(901)
    assert queue.claim("worker") == []


DEATHS: dict[str, Death] = {
    "failed": lambda _, queue: claim(queue).fail("x"),
    "tried in vain": lambda _, queue: claim(queue).retry("x"),
    "lapsed": _lapse,
    "expired": _expire,
}


def bury(queue: Queue, count: int) -> list[int]:
    """Make so many dead letters; return their ids."""
    jobs = queue.enqueue_many(range(count))
    for handle in queue.claim("worker", count):
        assert handle.fail(f"error {handle.payload}")
    return jobs


class DeadLettersContract(Contract):
    """A dead letter stays until it is requeued or purged."""

    def test_the_latest_comes_first_and_pages_follow_each_other(
        self, engine: EngineHarness, queue: Queue
    ) -> None:
        queue.enqueue_many(range(9))
        handles = queue.claim("worker", 9)
        # Three die at a time, and neither the groups nor their members in the order of the ids.
        groups = [
            [handles[place] for place in group] for group in ((7, 8, 6), (1, 0, 2), (5, 3, 4))
        ]
        for group in groups:
            for handle in group:
                assert handle.fail("x")
            engine.advance(1)
        pages: list[list[DeadJob]] = []
        after = None
        while page := queue.dead(2, after):
            pages.append(page)
            assert len(pages) <= 5
            after = page[-1]
        assert [len(page) for page in pages] == [2, 2, 2, 2, 1]
        letters = [letter for page in pages for letter in page]
        assert letters == sorted(letters, key=lambda one: (one.died_at, one.id), reverse=True)
        found = [letter.id for letter in letters]
        for place, group in enumerate(reversed(groups)):
            assert set(found[3 * place : 3 * place + 3]) == {handle.id for handle in group}

    def test_each_queue_has_its_own(self, store: Store, queue: Queue) -> None:
        (job,) = bury(queue, 1)
        another = store.queue("another")
        assert another.dead() == []
        assert another.requeue([job]) == 0
        assert another.purge() == 0
        assert another.purge([job]) == 0
        assert (another.stats().dead, queue.stats().dead) == (0, 1)
        assert [letter.id for letter in queue.dead()] == [job]

    @pytest.mark.parametrize("damage", NO_PLACES, ids=str)
    def test_a_place_behind_which_no_page_can_begin_is_refused(
        self, queue: Queue, damage: dict[str, Any]
    ) -> None:
        bury(queue, 2)
        with pytest.raises(InvalidOption, match="after"):
            queue.dead(10, replace(queue.dead()[0], **damage))

    def test_a_place_is_the_same_in_any_time_zone(self, queue: Queue) -> None:
        bury(queue, 2)
        letter = queue.dead()[0]
        there = letter.died_at.astimezone(timezone(timedelta(hours=5)))
        found = queue.dead(10, replace(letter, died_at=there))
        assert found == queue.dead(10, letter)
        assert len(found) == 1

    @pytest.mark.parametrize("limit", [0, 10_001, "1", None, True])
    def test_a_page_of_an_impossible_size_is_refused(self, queue: Queue, limit: Any) -> None:
        with pytest.raises(InvalidOption):
            queue.dead(limit)

    def test_a_requeued_job_keeps_its_id_and_starts_anew(
        self, engine: EngineHarness, store: Store
    ) -> None:
        queue = store.queue("mail", visibility_timeout=7, max_attempts=2, base_backoff=9)
        job = queue.enqueue("x", priority=3, expires=60)
        enqueued_at = live(store, job).enqueued_at
        assert claim(queue).fail("x")
        engine.advance(100)
        with spanning(engine) as span:
            assert queue.requeue([job, 10**12]) == 1
        found = live(store, job)
        assert (found.state, found.attempts, found.max_attempts) == ("pending", 0, 2)
        assert (found.priority, found.payload, found.expires_at) == (3, "x", None)
        assert found.visibility_timeout.total_seconds() == 7
        assert found.base_backoff.total_seconds() == 9
        assert found.run_at in span
        assert found.enqueued_at == enqueued_at
        assert queue.dead() == []
        assert claim(queue).attempt == 1

    def test_a_requeue_revives_some_and_of_none_none(self, store: Store, queue: Queue) -> None:
        jobs = bury(queue, 3)
        assert queue.requeue([]) == 0
        assert (queue.size(), queue.stats().dead) == (0, 3)
        assert queue.requeue(jobs[1:2]) == 1
        assert live(store, jobs[1]).state == "pending"
        assert {letter.id for letter in queue.dead()} == {jobs[0], jobs[2]}

    def test_purge_deletes_all_or_some_for_good(self, queue: Queue) -> None:
        jobs = bury(queue, 4)
        assert queue.purge([]) == 0
        assert queue.purge(jobs[:2]) == 2
        assert queue.purge(jobs[:2]) == 0
        assert queue.purge() == 2
        assert queue.dead() == []
        assert queue.requeue(jobs) == 0

    def test_purge_can_spare_the_young(self, engine: EngineHarness, queue: Queue) -> None:
        old = bury(queue, 2)
        engine.advance(100)
        young = bury(queue, 2)
        assert queue.purge([old[0], young[0]], older_than=50) == 1
        assert queue.purge(older_than=50) == 1
        assert sorted(letter.id for letter in queue.dead()) == young

    def test_purge_spares_those_that_died_lately_however_old_they_are(
        self, engine: EngineHarness, queue: Queue
    ) -> None:
        queue.enqueue(1)
        engine.advance(100)
        assert claim(queue).fail("x")
        assert queue.purge(older_than=50) == 0
        engine.advance(50)
        assert queue.purge(older_than=50) == 1

    def test_what_is_live_is_nothing_to_purge_and_what_is_dead_nothing_to_cancel(
        self, store: Store, queue: Queue
    ) -> None:
        dead, held, waiting = queue.enqueue_many(range(3))
        first, second = queue.claim("worker", 2)
        assert first.fail("x")
        assert queue.purge([held, waiting]) == 0
        assert queue.requeue([held, waiting]) == 0
        assert not queue.cancel(dead)
        assert [live(store, job).state for job in (held, waiting)] == ["processing", "pending"]
        assert [letter.id for letter in queue.dead()] == [dead]
        assert second.ack()

    def test_an_id_that_is_given_twice_counts_once(self, queue: Queue) -> None:
        first, second = bury(queue, 2)
        assert queue.requeue([first, second, first]) == 2
        for handle in queue.claim("worker", 2):
            assert handle.fail("x")
        assert queue.purge([first, second, first]) == 2

    def test_a_dead_letter_keeps_what_the_job_was(self, store: Store, queue: Queue) -> None:
        job = queue.enqueue(["x"], priority=-5, max_attempts=9)
        enqueued_at = live(store, job).enqueued_at
        assert claim(queue).fail(KeyError("who"))
        (letter,) = queue.dead()
        assert (letter.payload, letter.raw, letter.priority) == (["x"], b'["x"]', -5)
        assert (letter.attempts, letter.max_attempts) == (1, 9)
        assert (letter.schedule, letter.scheduled_for) == (None, None)
        assert letter.enqueued_at == enqueued_at
        assert "who" in letter.error

    @pytest.mark.parametrize("death", DEATHS.values(), ids=DEATHS)
    def test_a_dead_letter_tells_which_boundary_of_which_schedule_it_was(
        self, engine: EngineHarness, store: Store, queue: Queue, death: Death
    ) -> None:
        store.schedule("s", "@every 1h", "mail", 1, max_attempts=1, expires=900)
        due = boundary(store, "s")
        engine.advance(3601)
        assert engine.tick(store) == 1
        (fired,) = queue.peek()
        death(engine, queue)
        assert store.get_job(fired.id) is None
        (letter,) = queue.dead()
        assert (letter.id, letter.schedule, letter.scheduled_for) == (fired.id, "s", due)
