"""Stepping the clock: whoever waits for a time looks again, and nobody waits for real."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from functools import partial
from typing import Any

import pytest

from alkstore import LockTimeout, StopToken, StoreClosed
from alkstore.memory import ManualClock, MemoryStore
from alkstore.memory.data import LockRow
from tests.support.waiting import wait_until


@contextmanager
def background(call: Callable[[], Any], store: MemoryStore) -> Iterator[list[Any]]:
    """Run *call* in a thread that waits in *store*; give the place where its outcome will be."""
    outcome: list[Any] = []

    def run() -> None:
        try:
            outcome.append(call())
        except BaseException as error:  # noqa: BLE001 - the test looks at it
            outcome.append(error)

    before = len(store._access._waiters)
    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    wait_until(lambda: outcome or len(store._access._waiters) > before)
    yield outcome
    thread.join(4)  # less than the poll: the wake alone ends it
    assert not thread.is_alive()


def test_a_claim_that_waits_gets_a_delayed_job_when_its_time_comes(
    store: MemoryStore, clock: ManualClock
) -> None:
    queue = store.queue("q")
    job = queue.enqueue(1, delay=3600)
    with background(lambda: queue.claim_wait("w"), store) as outcome:
        clock.advance(3599)
        assert queue.claim("other") == []
        clock.advance(1)
    assert [handle.id for handle in outcome[0]] == [job]


def test_a_claim_that_waits_gets_a_job_whose_claim_has_lapsed(
    store: MemoryStore, clock: ManualClock
) -> None:
    queue = store.queue("q")
    queue.enqueue(1)
    queue.claim("dead")
    with background(lambda: queue.claim_wait("w"), store) as outcome:
        clock.advance(300)
    assert [handle.attempt for handle in outcome[0]] == [2]


def test_a_claim_that_waits_is_woken_by_an_enqueue(store: MemoryStore) -> None:
    queue = store.queue("q")
    with background(lambda: queue.claim_wait("w"), store) as outcome:
        queue.enqueue(1)
    assert len(outcome[0]) == 1


def test_the_time_limit_of_a_wait_is_in_real_seconds(store: MemoryStore) -> None:
    assert store.queue("q").claim_wait("w", timeout=0.01) == []
    store.try_lock("l", 10)
    with pytest.raises(LockTimeout, match=r"not free within 0\.01 s"):
        store.lock("l", 10, timeout=0.01)


def test_with_the_clock_of_the_machine_a_wait_ends_at_the_due_time() -> None:
    with MemoryStore() as store:
        queue = store.queue("q")
        began = time.monotonic()
        queue.enqueue(1, delay=0.1)
        assert len(queue.claim_wait("w", timeout=4)) == 1
        assert 0.09 < time.monotonic() - began < 4


def test_a_lock_that_is_waited_for_is_had_when_its_lease_lapses_or_ends(
    store: MemoryStore, clock: ManualClock
) -> None:
    store.try_lock("l", 60)
    with background(lambda: store.lock("l", 60), store) as outcome:
        clock.advance(60)
    (second,) = outcome
    assert second.token == 2
    with background(lambda: store.lock("l", 60), store) as outcome:
        assert second.release()
    assert outcome[0].token == 3


def test_a_stop_ends_every_wait_at_once(store: MemoryStore) -> None:
    store.try_lock("l", 60)
    stop = StopToken()
    calls: list[Callable[[], Any]] = [
        lambda: store.queue("q").claim_wait("w", stop=stop),
        lambda: list(store.queue("q").jobs("w", stop=stop)),
        lambda: store.lock("l", 1, stop=stop),
        lambda: store.run_schedules(stop),
        lambda: store.outbox("o").run("w", print, stop),
        lambda: store.listen("c").wait(stop=stop),
    ]
    outcomes: list[Any] = []

    def run(call: Callable[[], Any]) -> None:
        try:
            outcomes.append(call())
        except LockTimeout as error:
            outcomes.append(str(error))

    threads = [threading.Thread(target=run, args=(call,), daemon=True) for call in calls]
    for thread in threads:
        thread.start()
    wait_until(lambda: len(store._access._waiters) == len(calls))
    began = time.monotonic()
    stop.cancel()
    for thread in threads:
        thread.join(4)
    assert len(outcomes) == len(calls)
    assert time.monotonic() - began < 2
    assert "the wait for lock 'l' was stopped" in outcomes


def test_the_end_of_the_store_ends_every_wait(clock: ManualClock) -> None:
    store = MemoryStore(clock=clock)
    store.try_lock("l", 60)
    with (
        background(lambda: store.queue("q").claim_wait("w"), store) as claims,
        background(lambda: store.lock("l", 1), store) as locks,
        background(lambda: store.run_schedules(StopToken()), store) as leads,
    ):
        store.close()
    assert [type(outcome[0]) for outcome in (claims, locks, leads)] == [StoreClosed] * 3
    lease = store.data.locks["__alkstore_scheduler"]
    assert (lease.owner, lease.token) == (None, 1)


def test_the_leader_fires_every_boundary_of_a_step(store: MemoryStore, clock: ManualClock) -> None:
    store.schedule("s", "@every 10s", "q", 1)
    stop = StopToken()
    with background(lambda: store.run_schedules(stop), store):
        for step in (10, 25, 5):
            clock.advance(step)
            wait_until(lambda: store.tick() == 0 and store.queue("q").size())
        wait_until(lambda: store.queue("q").size() == 4)
        stop.cancel()
    fired = [str(handle.scheduled_for) for handle in store.queue("q").claim("w", 10)]
    assert fired == sorted(set(fired))
    assert len(fired) == 4


def test_a_leader_that_was_overtaken_fires_nothing(store: MemoryStore, clock: ManualClock) -> None:
    stop = StopToken()
    with background(lambda: store.run_schedules(stop), store) as outcome:
        wait_until(lambda: "__alkstore_scheduler" in store.data.locks)
        store.schedule("s", "@every 10s", "q", 1)
        with store.data.lock:  # the leader looks when the lock is let go
            clock.advance(10)
            store._leading._leases.acquire("__alkstore_scheduler", "other", 10)
    assert type(outcome[0]).__name__ == "LeadershipLost"
    assert store.queue("q").size() == 0
    assert store.tick() == 1


def test_a_kept_lock_lives_through_small_steps_and_is_lost_in_a_large_one(
    store: MemoryStore, clock: ManualClock
) -> None:
    with store.lock("l", 9, keep_alive=True) as handle:
        row = store.data.locks["l"]
        for _ in range(5):
            end = clock.advance(4) + timedelta(seconds=9)
            wait_until(partial(_ends_at, row, end))
            assert not handle.lost
        clock.advance(9)
        assert handle.lost
        assert not handle.renew()


def _ends_at(row: LockRow, end: datetime) -> bool:
    return row.expires_at == end


def test_a_lapsed_lease_that_nobody_took_is_renewed(store: MemoryStore, clock: ManualClock) -> None:
    handle = store.try_lock("l", 5)
    assert handle is not None
    clock.advance(60)
    assert handle.renew()
    assert store.try_lock("l", 5) is None
    clock.advance(60)
    assert store.try_lock("l", 5) is not None
    assert not handle.renew()
    assert handle.lost
    assert not handle.release()
