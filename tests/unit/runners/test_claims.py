"""The books of claims: at the stop, one that no handler has begun goes back, wherever it is."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator

import pytest

from alkstore._typing import override
from alkstore.memory import MemoryStore
from alkstore.runners.attempt import RELEASE
from alkstore.runners.claims import Claims, Seat
from alkstore.runners.held import Held
from alkstore.runners.worker import WorkerRunner
from tests.support.waiting import wait_until


class Gate(threading.Event):
    """What a handler thread with a claim in its hand waits for, until it is opened."""

    def __init__(self) -> None:
        super().__init__()
        self.reached = threading.Event()
        self.opened = threading.Event()

    @override
    def wait(self, timeout: float | None = None) -> bool:
        """Wait for longer than *timeout*: the machine is busy with others."""
        self.reached.set()
        assert self.opened.wait(600 * (timeout or 0.05))
        return False


@pytest.fixture
def store() -> Iterator[MemoryStore]:
    """Return a store."""
    with MemoryStore() as store:
        yield store


class Taking:
    """A handler thread that has a claim in its hand and has not begun."""

    def __init__(self, store: MemoryStore) -> None:
        queue = store.queue("emails")
        queue.enqueue(1)
        self.claims = Claims()
        self.gate = self.claims.looked = Gate()
        self.claims.admit(queue.claim("w"))
        self.taken: list[Held | None] = []
        self._thread = threading.Thread(target=self._take, daemon=True)
        self._thread.start()
        assert self.gate.reached.wait(10)

    def go_on(self) -> None:
        """Let it go on, and see it end."""
        self.gate.opened.set()
        self._thread.join(10)
        assert not self._thread.is_alive()

    def _take(self) -> None:
        self.taken.append(self.claims.take(Seat()))


def close(claims: Claims) -> None:
    claims.close()


def close_and_give_up(claims: Claims) -> None:
    claims.close()
    assert claims.give_up() == 0, "no handler runs"
    assert claims.unsettled == 1, "its release waits for nobody"


@pytest.mark.parametrize("end", [close, close_and_give_up])
def test_a_claim_in_the_hand_of_a_handler_thread_is_released_at_the_end_and_not_begun(
    store: MemoryStore, end: Callable[[Claims], None]
) -> None:
    """Field case B88."""
    taking = Taking(store)
    end(taking.claims)
    taking.go_on()
    assert taking.taken == [None]
    assert (taking.claims.unstarted, taking.claims.running) == (0, 0)
    (held,) = taking.claims.due(10)
    assert held.outcome is RELEASE
    assert not held.given_up
    assert taking.claims.due(10) == [], "it is released once"


def test_a_worker_that_is_stopped_at_once_begins_nothing_more(store: MemoryStore) -> None:
    """Field case B88: neither does the claim stay with it."""
    began: list[int] = []
    queue = store.queue("emails", visibility_timeout=3600)
    worker = WorkerRunner(queue, lambda job: began.append(job.id))
    gate = worker._claims.looked = Gate()
    worker.start()
    job = queue.enqueue(1)
    assert gate.reached.wait(10)
    try:
        worker.stop(0)
        row = store.get_job(job)
        assert row is not None
        assert (row.state, row.attempts) == ("pending", 0)
    finally:
        gate.opened.set()
    wait_until(lambda: worker.join(0))
    assert began == []
