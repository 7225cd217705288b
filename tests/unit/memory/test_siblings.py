"""Several stores over the same tables play several processes over one database."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from alkstore import LeadershipLost, StopToken, StoreClosed
from alkstore.memory import ManualClock, MemoryStore
from tests.support.waiting import wait_until


@pytest.fixture
def sibling(store: MemoryStore) -> Iterator[MemoryStore]:
    with store.sibling() as sibling:
        yield sibling


def test_they_see_the_same_rows_and_tell_the_same_time(
    store: MemoryStore, sibling: MemoryStore, clock: ManualClock
) -> None:
    job = store.queue("q").enqueue(1)
    assert sibling.get_job(job) == store.get_job(job)
    assert sibling.clock is clock
    assert MemoryStore(data=store.data).queue("q").size() == 1


def test_a_job_is_claimed_by_one_of_them(store: MemoryStore, sibling: MemoryStore) -> None:
    store.queue("q").enqueue(1)
    assert len(sibling.queue("q").claim("w")) == 1
    assert store.queue("q").claim("w") == []


def test_a_lock_that_one_holds_is_not_free_for_the_other(
    store: MemoryStore, sibling: MemoryStore
) -> None:
    with store.lock("l", 10) as held:
        assert sibling.try_lock("l", 10) is None
    taken = sibling.try_lock("l", 10)
    assert taken is not None
    assert taken.token == held.token + 1


def test_one_hears_what_the_other_sends(store: MemoryStore, sibling: MemoryStore) -> None:
    with sibling.listen("news") as ear:
        store.notify("news")
        wake = ear.wait(0)
    assert wake is not None


def test_one_of_them_leads(store: MemoryStore, sibling: MemoryStore, clock: ManualClock) -> None:
    first, second = store.start_scheduler(), sibling.start_scheduler()
    wait_until(lambda: {first.state, second.state} == {"leading", "standby"})
    leader, standby = (first, second) if first.state == "leading" else (second, first)
    with pytest.raises(LeadershipLost) as lost:
        store.run_schedules(StopToken())
    assert lost.value.retry_after == 10.0
    leader.stop()
    wait_until(lambda: standby.state == "leading")
    store.schedule("tick", "@every 1s", "q", 1)
    clock.advance(3)
    wait_until(lambda: store.queue("q").size() == 3)


def test_closing_one_leaves_the_other_open(store: MemoryStore) -> None:
    sibling = store.sibling()
    queue = sibling.queue("q")
    queue.enqueue(1)
    with sibling.listen("q") as ear:
        sibling.close()
        assert ear.wait() is None
    sibling.close()
    for call in (queue.size, sibling.schedules, lambda: sibling.queue("q"), sibling.tick):
        with pytest.raises(StoreClosed):
            call()
    assert sibling.closed
    assert store.queue("q").size() == 1


def test_a_lease_whose_leader_has_died_is_taken_over_when_it_lapses(
    store: MemoryStore, sibling: MemoryStore, clock: ManualClock
) -> None:
    # What a killed leader leaves behind: the row, and nobody who renews it.
    store._leading._leases.acquire("__alkstore_scheduler", "killed", 10)
    runner = sibling.start_scheduler()
    wait_until(lambda: runner.state == "standby")
    clock.advance(10)
    wait_until(lambda: runner.state == "leading")
