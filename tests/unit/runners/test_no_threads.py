"""No thread can be started, for the process has as many as it may: nothing is kept from others."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator

import pytest

from alkstore.memory import MemoryStore
from alkstore.runners.threads import Threads
from tests.support.waiting import rest, wait_until

HOUR = 3600.0


@pytest.fixture
def store() -> Iterator[MemoryStore]:
    """Return a store."""
    with MemoryStore() as store:
        yield store


Refuse = Callable[..., Callable[[], None]]


@pytest.fixture
def refuse(monkeypatch: pytest.MonkeyPatch) -> Refuse:
    """Have no thread started whose name holds a text; what is returned has them started again."""

    def refusing(text: str, then: Callable[[], object] = lambda: None) -> Callable[[], None]:
        start = threading.Thread.start
        refused = [text]

        def starting(thread: threading.Thread) -> None:
            name = thread.name
            if name.startswith("alkstore ") and any(one in name for one in refused):
                then()
                raise RuntimeError("can't start new thread")
            start(thread)

        monkeypatch.setattr(threading.Thread, "start", starting)
        return refused.clear

    return refusing


def our_threads() -> list[str]:
    return [one.name for one in threading.enumerate() if one.name.startswith("alkstore worker")]


def test_without_any_handler_thread_the_jobs_are_for_others(
    store: MemoryStore, refuse: Refuse
) -> None:
    """However long that lasts: heartbeats would keep them for ever."""
    allow = refuse(": handler")
    queue = store.queue("emails", visibility_timeout=HOUR)
    done: list[int] = []
    worker = store.start_worker("emails", lambda job: done.append(job.id))
    try:
        job = queue.enqueue(1)
        wait_until(lambda: worker.last_error is not None)
        handles = queue.claim_wait("another", timeout=10)
        assert [(one.id, one.attempt) for one in handles] == [(job, 1)]
        assert handles[0].release()
        rest(0.3)  # it does not take them back as long as it can begin nothing
        row = store.get_job(job)
        assert row is not None
        assert row.state == "pending"
        assert worker.state == "backing-off"
    finally:
        allow()
    wait_until(lambda: done == [job])
    wait_until(lambda: worker.state == "working")
    assert worker.stop(5)


def test_with_some_handler_threads_these_go_on(store: MemoryStore, refuse: Refuse) -> None:
    allow = refuse(": handler 2")
    queue = store.queue("emails", visibility_timeout=HOUR)
    done: list[int] = []
    worker = store.start_worker("emails", lambda job: done.append(job.id), concurrency=2)
    try:
        jobs = queue.enqueue_many(range(4))
        wait_until(lambda: sorted(done) == jobs, 30)
    finally:
        allow()
    assert worker.stop(5)


@pytest.mark.parametrize("part", ["settlement", "heartbeats", "claims"])
def test_a_worker_that_cannot_keep_or_settle_claims_nothing(
    store: MemoryStore, refuse: Refuse, part: str
) -> None:
    queue = store.queue("emails", visibility_timeout=HOUR)
    job = queue.enqueue(1)
    # Whoever claims has the time to do so before the caller hears of it.
    refuse(part, lambda: rest(0.1))
    with pytest.raises(RuntimeError, match="new thread"):
        store.start_worker("emails", print)
    row = store.get_job(job)
    assert row is not None
    assert (row.state, row.attempts) == ("pending", 0)
    wait_until(lambda: our_threads() == [])


def test_a_thread_that_could_not_be_started_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    threads = Threads()
    seen: list[object] = []

    def refuse(_thread: threading.Thread) -> None:
        # As a health call in another thread sees it.
        seen.append(threads.dead())
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    for _ in range(3):
        with pytest.raises(RuntimeError):
            threads.start(threading.Thread(target=print))
    assert seen == [[]] * 3
    assert threads.dead() == threads.alive() == []
    assert threads.wait(0, tuple)


def test_a_thread_that_is_being_started_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    threads = Threads()
    asked, go_on = threading.Event(), threading.Event()
    start = threading.Thread.start

    def slow(thread: threading.Thread) -> None:
        if thread.name == "slow":
            asked.set()
            assert go_on.wait(10)
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", slow)
    began = threading.Event()
    starter = threading.Thread(
        target=lambda: threads.start(threading.Thread(target=began.set, name="slow", daemon=True))
    )
    starter.start()
    assert asked.wait(10)
    assert not threads.wait(0.05, tuple)
    go_on.set()
    assert threads.wait(10, tuple)
    assert began.is_set()
    starter.join(10)
