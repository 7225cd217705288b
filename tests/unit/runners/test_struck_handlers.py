"""Exceptions that an application sets in a handler's thread from outside, and that come late.

Time limits do so. Such a one strikes between any two lines; the thread's body is started again
then.
"""

from __future__ import annotations

import linecache
import sys
import threading
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

import pytest

from alkstore.memory import MemoryStore
from alkstore.runners import claims as books
from alkstore.runners.attempt import ACK
from alkstore.runners.claims import Claims, Seat
from alkstore.runners.held import Held
from alkstore.runners.worker import WorkerRunner
from alkstore.traits import JobHandle
from tests.support.waiting import wait_until


@pytest.fixture
def store() -> Iterator[MemoryStore]:
    """Return a store."""
    with MemoryStore() as store:
        yield store


class Striking:
    """Raises at one of the lines of the books that this thread comes to.

    Attributes:
        struck: Whether it came so far.
    """

    def __init__(self, line: int) -> None:
        self._left = line
        self.struck = False

    def __call__(self, frame: FrameType, event: str, _: object) -> Striking | None:
        """Trace; a trace function that raises is taken off."""
        if frame.f_code.co_filename != books.__file__:
            return None
        # The interpreter sees to it that none strikes between the end of a block and its exit, and
        # shows that as another line of the `with`.
        line = linecache.getline(frame.f_code.co_filename, frame.f_lineno)
        if event == "line" and not line.lstrip().startswith("with "):
            self._left -= 1
            if self._left == 0:
                self.struck = True
                raise TimeoutError
        return self


def work(claims: Claims, seat: Seat, strike: Striking) -> None:
    """Work on one claim, as a handler's thread does."""
    former = sys.gettrace()
    sys.settrace(strike)
    try:
        claims.take(seat)
        seat.outcome = ACK
        claims.leave(seat)
    except TimeoutError:
        pass
    finally:
        sys.settrace(former)


def test_whatever_line_is_struck_the_claim_is_settled(store: MemoryStore) -> None:
    queue = store.queue("emails")
    line, outcomes = 0, []
    struck = True
    while struck:
        line += 1
        queue.enqueue(line)
        claims, seat, strike = Claims(), Seat(), Striking(line)
        claims.admit(queue.claim("w"))
        work(claims, seat, strike)
        struck = strike.struck
        claims.leave(seat)
        claims.recall(0.0, 0)
        assert (claims.unstarted, claims.running) == (0, 0), line
        due = claims.due(10)
        assert due, line
        assert len(set(map(id, due))) == 1
        outcomes.append(due[0].outcome.kind)
        claims.forget(due)
        assert claims.in_hand == 0
    assert line > 20
    assert outcomes == sorted(outcomes, reverse=True), "released before it began, else acknowledged"
    assert {*outcomes} == {"release", "ack"}


def test_claims_that_a_free_handler_is_about_to_take_stay(store: MemoryStore) -> None:
    """It waits for the interpreter, which another handler holds."""
    queue = store.queue("emails")
    queue.enqueue_many(range(3))
    claims, seat = Claims(), Seat()
    claims.admit(queue.claim("w", 3))
    claims.recall(0.0, 1)
    assert claims.unstarted == 3
    first = claims.take(seat)
    assert first is not None
    claims.recall(0.0, 2)
    assert claims.unstarted == 2
    claims.recall(0.0, 1)
    assert (claims.unstarted, claims.running, claims.unsettled) == (0, 1, 2)
    claims.leave(seat)
    assert (claims.running, claims.unsettled, claims.finished) == (0, 3, 1)


def test_a_claim_that_was_lost_comes_back_although_others_keep_coming(
    store: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(books, "_LOST_AFTER", 0.5)
    begin: Callable[[Claims, Held, Seat], bool] = Claims._begin
    lost = ["lost"]

    def begin_but_once(claims: Claims, held: Held, seat: Seat) -> bool:
        if held.handle.payload in lost:
            lost.clear()
            raise TimeoutError
        return begin(claims, held, seat)

    monkeypatch.setattr(Claims, "_begin", begin_but_once)
    done: list[Any] = []
    worker = store.start_worker("emails", lambda job: done.append(job.payload), concurrency=2)
    queue = store.queue("emails")
    queue.enqueue("lost")
    ended = threading.Event()

    def keep_them_coming() -> None:
        while not ended.wait(0.02):
            queue.enqueue("more")

    stream = threading.Thread(target=keep_them_coming)
    stream.start()
    wait_until(lambda: "lost" in done)
    ended.set()
    stream.join()
    assert worker.stop(5)


def test_claims_ahead_go_back_although_some_handler_ends_at_each_moment(
    store: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    queue = store.queue("emails")
    started, ended = threading.Event(), threading.Event()

    def handler(_job: JobHandle) -> None:
        started.set()
        ended.wait(0.2)

    worker = WorkerRunner(queue, handler)
    ahead = [60]
    monkeypatch.setattr(worker, "_ahead", lambda: ahead[0])
    queue.enqueue_many(range(60))
    worker.start()
    assert started.wait(10)
    wait_until(lambda: queue.stats().running >= 30)
    ahead[0] = 0
    wait_until(lambda: queue.stats().running <= 1, 5)
    assert queue.stats().ready > 20
    ended.set()
    assert worker.stop(5)
