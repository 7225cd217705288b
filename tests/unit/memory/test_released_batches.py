"""Claims that a runner releases together: each goes back as if it were released alone."""

from __future__ import annotations

from alkstore.memory import MemoryStore
from tests.support.workers import release_many


def test_released_jobs_are_as_they_were_before_the_claim(store: MemoryStore) -> None:
    queue = store.queue("mail")
    store.queue("mail", max_attempts=1).enqueue_many(range(3), priority=2)
    queue.enqueue_many(range(3))
    before = queue.peek()
    handles = queue.claim("w", 6)
    assert release_many(queue, handles) == 6
    assert queue.peek() == before
    # Whoever works with one still has settled nothing, and can see it.
    assert all(handle.lost and not handle.settled for handle in handles)
    assert release_many(queue, handles) == 0
    assert queue.peek() == before


def test_a_later_claim_is_left_alone(store: MemoryStore) -> None:
    queue = store.queue("mail")
    queue.enqueue(1)
    (stale,) = queue.claim("w")
    assert queue.cancel(stale.id)
    queue.enqueue(2)
    (held,) = queue.claim("w")
    assert release_many(queue, [stale, held]) == 1
    assert (stale.lost, stale.settled, held.lost, held.settled) == (True, False, True, False)


def test_one_wake_is_for_all_of_them_and_none_for_none(store: MemoryStore) -> None:
    queue = store.queue("mail")
    queue.enqueue_many(range(5))
    handles = queue.claim("w", 5)
    woken: list[str] = []
    store._access.data.wakes.attach("mail", woken, woken.append)
    assert release_many(queue, handles) == 5
    assert woken == ["mail"]
    assert release_many(queue, handles) == 0
    assert woken == ["mail"]
