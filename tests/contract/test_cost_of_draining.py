"""A drain reads of the dead letters what tells of the job that it has just run, and no more."""

from __future__ import annotations

from typing import Any

import pytest

from alkstore import DeadJob, JobHandle, Store
from alkstore.testing import EngineHarness, deliver_all, drain


@pytest.fixture
def read(store: Store, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return a list that grows by the length of each page of dead letters that is read."""
    pages: list[int] = []

    def count(kind: Any) -> None:
        original = kind.dead

        def dead(self: Any, limit: int = 100, after: DeadJob | None = None) -> list[DeadJob]:
            page: list[DeadJob] = original(self, limit, after)
            pages.append(len(page))
            return page

        monkeypatch.setattr(kind, "dead", dead)

    count(type(store.queue("mail")))
    count(type(store.outbox("mail")))
    return pages


def end(handle: JobHandle) -> None:
    """Do with a job what its payload says."""
    if handle.payload == "raise":
        raise OSError("smtp")
    if handle.payload == "fail":
        handle.fail("no")


@pytest.mark.parametrize("ends", [["ack"], ["raise"], ["fail"], ["raise", "ack", "fail"]], ids=str)
@pytest.mark.parametrize("falling", [False, True])
def test_each_attempt_of_a_drain_reads_few_dead_letters(
    engine: EngineHarness, store: Store, read: list[int], ends: list[str], *, falling: bool
) -> None:
    queue = store.queue("mail", max_attempts=1)
    jobs = [
        queue.enqueue(ends[n % len(ends)], priority=n if falling else 0, delay=n % 4)
        for n in range(40)
    ]
    dead: set[int] = set()
    for _ in range(4):  # some die in one moment of the store clock, others later
        done = drain(store, "mail", end)
        dead.update(done.dead)
        assert sum(read) <= 3 * len(done)
        assert len(read) <= 4 * len(done)
        read.clear()
        engine.advance(1)
    assert dead == {job for n, job in enumerate(jobs) if ends[n % len(ends)] != "ack"}


def test_each_delivery_reads_few_dead_letters(store: Store, read: list[int]) -> None:
    outbox = store.outbox("mail")
    messages = [outbox.enqueue("fail" if n % 2 else "ack") for n in range(30)]
    done = deliver_all(store, "mail", end)
    assert (done.acked, done.dead) == (messages[::2], messages[1::2])
    assert sum(read) <= 3 * len(done)


def test_a_requeued_job_that_is_acked_is_not_taken_for_the_dead_letter_it_was(
    engine: EngineHarness, store: Store
) -> None:
    queue = store.queue("mail")
    job, other = queue.enqueue_many(["fail", "fail"])
    assert drain(store, "mail", end).dead == [job, other]
    engine.advance(5)
    assert queue.requeue([job]) == 1
    assert drain(store, "mail", lambda _: None).acked == [job]
