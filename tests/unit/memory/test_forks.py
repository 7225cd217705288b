"""A forked child has a copy of a memory store, and never waits for a thread of the parent's."""

from __future__ import annotations

import os
import threading

import pytest

from alkstore.memory import ManualClock, MemoryStore, data
from tests.support.forks import in_fork
from tests.support.waiting import wait_until

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs os.fork")


def test_what_either_does_afterwards_the_other_never_sees(store: MemoryStore) -> None:
    queue = store.queue("q")
    queue.enqueue("before")

    def child() -> list[str]:
        queue.enqueue("in the child")
        return [handle.payload for handle in queue.claim("w", 10)]

    assert in_fork(child) == ["before", "in the child"]
    assert [handle.payload for handle in queue.claim("w", 10)] == ["before"]


def test_a_handle_that_was_claimed_before_settles_in_the_child(store: MemoryStore) -> None:
    queue = store.queue("q")
    queue.enqueue_many([1, 2])
    handles = queue.claim("w", 2)

    def child() -> list[int]:
        held = store.sibling().queue("q").heartbeat_many(handles)
        return [held, queue.ack_many(handles), queue.size()]

    assert in_fork(child) == [2, 2, 0]
    assert queue.ack_many(handles) == 2


def test_a_fork_waits_for_a_change_that_is_half_made(store: MemoryStore) -> None:
    held, go = threading.Event(), threading.Event()

    def change() -> None:
        with store.data.lock:
            held.set()
            go.wait(10)
            store.queue("q").enqueue_many([1, 2, 3])

    thread = threading.Thread(target=change)
    thread.start()
    held.wait(10)
    threading.Timer(0.05, go.set).start()
    assert in_fork(lambda: store.queue("q").size()) == 3
    thread.join()


def test_runners_and_leadership_stay_with_the_parent(
    store: MemoryStore, clock: ManualClock
) -> None:
    runner = store.start_scheduler()
    worker = store.start_worker("q", lambda _: None)
    wait_until(lambda: runner.state == "leading")

    def child() -> list[object]:
        reason = worker.health().reason or ""
        own = store.start_worker("own", lambda _: None)
        store.queue("own").enqueue(1)
        wait_until(lambda: store.queue("own").size() == 0)
        return [runner.state, worker.state, "stay with the process" in reason, own.stop(5)]

    assert in_fork(child) == ["stopped", "stopped", True, True]
    assert runner.state == "leading"
    store.queue("q").enqueue(1)
    wait_until(lambda: store.queue("q").size() == 0)


def test_a_clock_that_is_stepped_in_the_child_stands_still_in_the_parent(
    store: MemoryStore, clock: ManualClock
) -> None:
    began = clock.now()
    assert in_fork(lambda: clock.advance(60).isoformat()) != began.isoformat()
    assert clock.now() == began


def test_a_listener_hears_in_the_child_what_is_sent_there(store: MemoryStore) -> None:
    with store.listen("news") as ear:

        def child() -> bool:
            assert ear.wait(0) is None
            store.notify("news")
            return ear.wait(5) is not None

        assert in_fork(child) is True
        assert ear.wait(0) is None


def test_what_is_sent_in_the_child_before_it_waits_is_remembered_there(store: MemoryStore) -> None:
    sibling = store.sibling()
    with store.listen("news", "other") as ear:

        def child() -> list[str]:
            sibling.notify("other")
            store.notify("news")
            wakes = [ear.wait(0), ear.wait(0), ear.wait(0)]
            return [wake.channel for wake in wakes if wake is not None]

        assert in_fork(child) == ["other", "news"]
        assert ear.wait(0) is None


def test_a_listener_hears_in_the_child_though_its_store_was_dropped() -> None:
    store = MemoryStore()
    sibling = store.sibling()
    ear = store.listen("news")
    del store

    def child() -> bool:
        sibling.notify("news")
        return ear.wait(0) is not None

    assert in_fork(child) is True


def test_closing_the_store_in_the_child_ends_a_wait_of_an_inherited_listener(
    store: MemoryStore,
) -> None:
    ear = store.listen("news")

    def child() -> bool:
        threading.Timer(0.05, store.close).start()
        return ear.wait(10) is None and store.closed

    assert in_fork(child) is True


def test_a_closed_listener_stays_deaf_in_the_child(store: MemoryStore) -> None:
    ear = store.listen("news")
    ear.close()

    def child() -> bool:
        store.notify("news")
        return ear.wait(0) is None

    assert in_fork(child) is True


def test_a_thread_that_has_forked_gives_back_nothing_that_another_took_to_fork(
    store: MemoryStore,
) -> None:
    """The hooks are called by hand, in the one order that hurts."""
    took, go = threading.Event(), threading.Event()

    def another() -> None:
        data._before_fork()  # waits until the first one lets go
        took.set()
        go.wait(10)
        data._after_fork_in_parent()

    data._before_fork()
    thread = threading.Thread(target=another)
    thread.start()
    try:
        data._after_fork_in_parent()
        assert took.wait(10)
        data._after_fork_in_parent()  # it looks once more whether there is anything to give back
    finally:
        go.set()
        thread.join(10)
    assert store.queue("q").enqueue(1)


def test_threads_that_fork_at_once_do_not_wait_for_each_other(store: MemoryStore) -> None:
    others = [MemoryStore() for _ in range(3)]
    barrier = threading.Barrier(2)
    sizes: list[int] = []

    def fork() -> None:
        for _ in range(5):
            barrier.wait()
            store.queue("q").enqueue(1)
            sizes.append(in_fork(lambda: store.queue("q").size()))

    threads = [threading.Thread(target=fork, daemon=True) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert len(sizes) == 10
    assert max(sizes) == 10
    assert [other.queue("q").size() for other in others] == [0, 0, 0]
