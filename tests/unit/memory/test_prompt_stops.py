"""Whoever waits in a memory store hears of its stop at once, and not at its next look."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator

import pytest

from alkstore import LockTimeout, Runner, StopToken
from alkstore.memory import MemoryStore
from tests.support.timing import in_time
from tests.support.waiting import rest, wait_until

SOON = 0.5
"""The contract says 100 ms; who only looked now and then, each second say, would need longer."""


@pytest.fixture
def store() -> Iterator[MemoryStore]:
    """Return a store on the clock of the machine, with work for later."""
    with MemoryStore() as store:
        store.queue("mail").enqueue(1, delay=3600)
        store.outbox("mail").enqueue(1, delay=3600)
        store.schedule("mail", "@every 30d", "mail", 1)
        yield store


def lock(store: MemoryStore, stop: StopToken) -> None:
    """Wait for a lock that is held for long."""
    store.try_lock("door", 3600)
    with pytest.raises(LockTimeout):
        store.lock("door", 3600, stop=stop)


CALLS: dict[str, Callable[[MemoryStore, StopToken], object]] = {
    "claim_wait": lambda store, stop: store.queue("mail").claim_wait("w", stop=stop),
    "claim_wait, nothing": lambda store, stop: store.queue("none").claim_wait("w", stop=stop),
    "jobs": lambda store, stop: list(store.queue("mail").jobs("w", stop=stop)),
    "lock": lock,
    "run_schedules": lambda store, stop: store.run_schedules(stop),
    "run": lambda store, stop: store.outbox("mail").run("w", print, stop),
    "wait": lambda store, stop: store.listen("mail").wait(stop=stop),
}

RUNNERS: dict[str, tuple[Callable[[MemoryStore], Runner], str]] = {
    "worker": (lambda store: store.start_worker("mail", print), "working"),
    "relay": (lambda store: store.start_outbox("mail", print), "working"),
    "leader": (lambda store: store.start_scheduler(), "leading"),
}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_a_call_that_waits_returns_at_once(
    store: MemoryStore, call: Callable[[MemoryStore, StopToken], object]
) -> None:
    def attempt() -> float:
        stop = StopToken()
        before = len(store._access._waiters)
        thread = threading.Thread(target=call, args=(store, stop), daemon=True)
        thread.start()
        wait_until(lambda: len(store._access._waiters) > before)
        return seconds_of(stop.cancel, thread)

    in_time(attempt, SOON)


@pytest.mark.parametrize(("start", "state"), RUNNERS.values(), ids=RUNNERS)
def test_a_runner_that_waits_ends_at_once(
    store: MemoryStore, start: Callable[[MemoryStore], Runner], state: str
) -> None:
    def attempt() -> float:
        runner = start(store)
        wait_until(lambda: runner.state == state)
        return seconds_of(runner.stop)

    in_time(attempt, SOON)


def test_a_scheduler_that_stands_by_ends_at_once(store: MemoryStore) -> None:
    leader = store.start_scheduler()
    wait_until(lambda: leader.state == "leading")

    def attempt() -> float:
        with store.sibling() as sibling:
            runner = sibling.start_scheduler()
            wait_until(lambda: runner.state == "standby")
            return seconds_of(runner.stop)

    in_time(attempt, SOON)


def seconds_of(stop: Callable[[], object], thread: threading.Thread | None = None) -> float:
    """Return how long *stop* takes, and *thread* until it has ended."""
    rest(0.05)  # one that is not asleep yet ends the sooner
    began = time.monotonic()
    stop()
    if thread is not None:
        thread.join(30)
        assert not thread.is_alive()
    return time.monotonic() - began
