"""Section 5 of the contract: dead letters are listed, made live again, and deleted."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from alkstore.traits import Queue
from alkstore.values import DeadJob
from alkstore_postgres import PostgresStore
from tests.support.job_table import JobTable


def bury(queue: Queue, count: int) -> list[int]:
    """Make dead letters, each in a statement of its own; return their ids."""
    ids = queue.enqueue_many(range(count))
    for handle in queue.claim("w", count):
        assert handle.fail(f"error {handle.payload}")
    return ids


def all_pages(queue: Queue, limit: int) -> list[int]:
    """Return the ids of all dead letters, read in pages of *limit*."""
    seen: list[int] = []
    after: DeadJob | None = None
    while page := queue.dead(limit, after):
        assert len(page) <= limit
        seen += [letter.id for letter in page]
        after = page[-1]
    return seen


# Pages.


def test_the_latest_dead_letter_comes_first(queue: Queue) -> None:
    ids = bury(queue, 5)
    letters = queue.dead()
    assert [letter.id for letter in letters] == ids[::-1]
    assert [letter.error for letter in letters] == [f"error {n}" for n in (4, 3, 2, 1, 0)]


@pytest.mark.parametrize("limit", [1, 2, 3, 7, 100])
def test_pages_show_each_dead_letter_once(queue: Queue, limit: int) -> None:
    ids = bury(queue, 7)
    assert all_pages(queue, limit) == ids[::-1]


@pytest.mark.parametrize("limit", [1, 3, 4, 100])
def test_dead_letters_of_one_moment_are_paged_by_their_ids(
    queue: Queue, table: JobTable, limit: int
) -> None:
    ids = bury(queue, 10)
    table.set_death(ids[2:8], "2024-01-01 00:00:00.123456+00")
    table.set_death(ids[:2], "2023-01-01 00:00:00+00")
    expected = [*ids[8:][::-1], *ids[2:8][::-1], *ids[:2][::-1]]
    assert all_pages(queue, limit) == expected


def test_a_page_goes_on_where_a_letter_was_that_is_gone(queue: Queue) -> None:
    ids = bury(queue, 6)
    page = queue.dead(3)
    assert queue.purge([page[-1].id]) == 1
    assert [letter.id for letter in queue.dead(10, page[-1])] == ids[:3][::-1]


def test_a_letter_that_died_at_no_time_python_knows_is_shown(queue: Queue, table: JobTable) -> None:
    (early, late, plain) = bury(queue, 3)
    table.set_death([late], "infinity")
    table.set_death([early], "-infinity")
    assert all_pages(queue, 1) == [late, plain, early]


def test_the_dead_letters_of_another_queue_are_not_shown(
    store: PostgresStore, queue: Queue
) -> None:
    bury(queue, 2)
    other = store.queue("other")
    assert other.dead() == []
    assert other.requeue([letter.id for letter in queue.dead()]) == 0
    assert other.purge([letter.id for letter in queue.dead()]) == 0
    assert other.purge() == 0
    assert len(queue.dead()) == 2


# Requeue.


def test_a_requeued_job_lives_again_with_its_id_and_stamps(queue: Queue, table: JobTable) -> None:
    job = queue.enqueue({"a": 1}, priority=3, max_attempts=4)
    table.set(job, "schedule", "nightly")
    before = table.row(job)
    queue.claim("w")[0].fail("x")
    assert queue.requeue([job]) == 1
    after = table.row(job)
    assert after.pop("run_at") > before.pop("run_at")
    assert after == before
    assert queue.dead() == []
    (handle,) = queue.claim("w")
    assert (handle.id, handle.attempt, handle.payload) == (job, 1, {"a": 1})


def test_a_requeued_job_is_due_at_once_and_no_longer_expires(queue: Queue, table: JobTable) -> None:
    job = queue.enqueue(1, delay=3600, expires=7200)
    table.move(job, "expires_at", -1)
    assert queue.claim("w") == []
    assert queue.dead()[0].error == "expired"
    assert queue.requeue([job]) == 1
    assert table.row(job)["expires_at"] is None
    assert queue.claim("w")[0].id == job


def test_a_requeued_job_has_its_whole_budget(queue: Queue, table: JobTable) -> None:
    job = queue.enqueue(1, max_attempts=2)
    for round_ in range(2):
        for attempt in (1, 2):
            (handle,) = queue.claim("w")
            assert handle.attempt == attempt
            assert handle.retry(f"round {round_}", delay=0)
        assert queue.dead()[0].error == f"round {round_}"
        assert queue.requeue([job]) == 1


def test_only_dead_letters_are_requeued_and_each_once(queue: Queue) -> None:
    first, second = bury(queue, 2)
    live = queue.enqueue(1, delay=60)
    assert queue.requeue([first, first, live, 2**63 - 1]) == 1
    assert queue.requeue([first]) == 0
    assert queue.requeue([]) == 0
    assert [letter.id for letter in queue.dead()] == [second]
    assert queue.size() == 2


def test_many_requeued_jobs_run_in_the_order_of_their_ids(queue: Queue) -> None:
    ids = bury(queue, 20)
    assert queue.requeue(ids[::-1]) == 20
    assert [handle.id for handle in queue.claim("w", 20)] == ids


# Purge.


def test_a_purge_deletes_all_and_counts(queue: Queue) -> None:
    bury(queue, 5)
    live = queue.enqueue(1)
    assert queue.purge() == 5
    assert queue.purge() == 0
    assert queue.dead() == []
    assert queue.claim("w")[0].id == live


def test_a_purge_by_ids_deletes_only_these(queue: Queue) -> None:
    ids = bury(queue, 4)
    live = queue.enqueue(1)
    assert queue.purge([ids[1], ids[1], ids[3], live, 2**63 - 1]) == 2
    assert [letter.id for letter in queue.dead()] == [ids[2], ids[0]]
    assert queue.size() == 1


def test_a_purge_of_no_ids_deletes_nothing(queue: Queue) -> None:
    bury(queue, 2)
    assert queue.purge([]) == 0
    assert queue.purge([], older_than=0) == 0
    assert len(queue.dead()) == 2


@pytest.mark.parametrize("age", [3600, 3600.0, timedelta(hours=1)])
def test_a_purge_by_age_spares_the_younger(queue: Queue, table: JobTable, age: Any) -> None:
    old, young = bury(queue, 2)
    table.move_death(old, -3601)
    table.move_death(young, -3590)
    assert queue.purge(older_than=age) == 1
    assert [letter.id for letter in queue.dead()] == [young]


def test_a_purge_by_ids_and_age_deletes_what_is_both(queue: Queue, table: JobTable) -> None:
    old, young, other = bury(queue, 3)
    table.move_death(old, -100)
    table.move_death(other, -100)
    assert queue.purge([old, young], older_than=60) == 1
    assert [letter.id for letter in queue.dead()] == [young, other]


def test_a_purge_of_more_than_one_batch_deletes_all(queue: Queue, table: JobTable) -> None:
    queue.enqueue_many(range(12_000), expires=60)
    table.expire_all()
    assert queue.claim("w") == []
    assert queue.purge() == 12_000
    assert queue.stats().dead == 0


def test_a_page_can_begin_behind_a_letter_of_ones_own_making(queue: Queue) -> None:
    ids = bury(queue, 3)
    latest = queue.dead(1)[0]
    before_all = replace(latest, died_at=latest.died_at + timedelta(days=1))
    assert [letter.id for letter in queue.dead(9, before_all)] == ids[::-1]
