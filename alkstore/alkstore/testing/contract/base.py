"""What every part of the suite is built on: the fixtures, time spans and threads."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Generic, TypeVar

import pytest

from alkstore.testing.harness import EngineHarness
from alkstore.traits import JobHandle, Queue, Store
from alkstore.values import Job, Schedule

T = TypeVar("T")

PROMPT = 2.0
"""Well below the 5 s after which a waiter looks again by itself, in seconds.

What the contract promises within 100 ms is asked for within this: a loaded machine must not
fail a test, and a waiter that polls must.
"""

LIMIT = 30.0
"""How long a test waits for what comes sooner or later, in seconds."""

LONGEST_TURN = 0.25
"""As so many seconds of a wait one look at what is waited for counts at the most: where it takes
longer, the machine did not let this process run, and nobody in it had the rest of that time."""


SHORTEST_TURN = 1e-6
"""After so many seconds the interpreter has threads of a race take turns."""


@contextmanager
def taking_turns() -> Iterator[None]:
    """Have threads interrupt each other nearly everywhere, as they seldom do by themselves.

    A step of a few microseconds is otherwise over before another thread gets its turn, locked
    or not.
    """
    before = sys.getswitchinterval()
    sys.setswitchinterval(SHORTEST_TURN)
    try:
        yield
    finally:
        sys.setswitchinterval(before)


class Contract:
    """Base of the parts. A subclass gives the fixture ``engine``; the others follow from it."""

    @pytest.fixture
    def engine(self) -> Iterator[EngineHarness]:
        """Return a fresh harness; close it afterwards. To be overridden."""
        pytest.fail(f"{type(self).__name__} has no fixture `engine` that returns a harness")

    @pytest.fixture
    def turns(self) -> Iterator[None]:
        """Have the threads of the test interrupt each other nearly everywhere."""
        with taking_turns():
            yield

    @pytest.fixture
    def store(self, engine: EngineHarness) -> Store:
        """Return a store on the data of the harness."""
        return engine.open()

    @pytest.fixture
    def other(self, engine: EngineHarness, store: Store) -> Store:
        """Return a store on the same data, as another process would have it."""
        del store  # opened first
        return engine.open()

    @pytest.fixture
    def queue(self, store: Store) -> Queue:
        """Return a queue with the default options."""
        return store.queue("mail")


@dataclass
class Span:
    """A stretch of the store clock; what was stored meanwhile lies in it."""

    first: datetime
    last: datetime

    def __contains__(self, moment: object) -> bool:
        """Return whether *moment* lies in the span, ends included."""
        return isinstance(moment, datetime) and self.first <= moment <= self.last

    def __add__(self, seconds: float | timedelta) -> Span:
        """Return the span so much later."""
        gap = seconds if isinstance(seconds, timedelta) else timedelta(seconds=seconds)
        return Span(self.first + gap, self.last + gap)


@contextmanager
def spanning(engine: EngineHarness) -> Iterator[Span]:
    """Return the span of the store clock that the block takes."""
    now = engine.now()
    span = Span(now, now)
    yield span
    span.last = engine.now()


class Allowance:
    """So many seconds, of which only those are used up in which this process could run.

    Args:
        seconds: How many.
    """

    def __init__(self, seconds: float) -> None:
        self._left = seconds
        self._before = time.monotonic()

    def lasts(self) -> bool:
        """Return whether some of it is left; to be called again and again."""
        now = time.monotonic()
        self._left -= min(now - self._before, LONGEST_TURN)
        self._before = now
        return self._left > 0


class Background(Generic[T]):
    """Work in a thread of its own, with what came of it.

    Args:
        work: What to do.
    """

    def __init__(self, work: Callable[[], T]) -> None:
        self._work = work
        self._result: list[T] = []
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="contract", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            self._result.append(self._work())
        except BaseException as error:  # noqa: BLE001 - raised again by `result`
            self._error = error

    @property
    def running(self) -> bool:
        """Whether it goes on."""
        return self._thread.is_alive()

    def result(self, timeout: float = LIMIT) -> T:
        """Return what the work returned, or raise what it raised, within *timeout* seconds."""
        allowance = Allowance(timeout)
        while self.running and allowance.lasts():
            self._thread.join(0.02)
        assert not self.running, f"it has not ended within {timeout:g} s"
        if self._error is not None:
            raise self._error
        return self._result[0]


def seen_during(work: Callable[[], object], look: Callable[[], T]) -> list[T]:
    """Return what a thread has seen that looks again and again before, while and after *work*.

    The two take turns; what was seen twice in succession is returned once.
    """
    looked, done = threading.Event(), threading.Event()
    seen: list[T] = []

    def watch() -> None:
        last = False
        while not last:
            last = done.is_set()
            try:
                found = look()
            finally:
                looked.set()
            if not seen or seen[-1] != found:
                seen.append(found)

    with taking_turns():
        watcher = Background(watch)
        try:
            assert looked.wait(LIMIT)
            work()
        finally:
            done.set()
        watcher.result()
    return seen


@contextmanager
def refused(error: type[BaseException], given: object) -> Iterator[None]:
    """Fail unless the block raises *error* for what was *given*."""
    try:
        yield
    except error:
        return
    except BaseException as other:
        raise AssertionError(f"{given!a}: {other!r} was raised instead") from other
    raise AssertionError(f"{given!a} was not refused")


def wait_until(condition: Callable[[], object], timeout: float = LIMIT) -> None:
    """Return as soon as *condition* holds; fail when it does not within *timeout* seconds."""
    allowance = Allowance(timeout)
    while not condition():
        assert allowance.lasts(), "it did not come to be in time"
        time.sleep(0.005)


def fall_asleep() -> None:
    """Give a thread the time to begin its wait; what it does is right if it is late, too."""
    time.sleep(0.05)


def claim(queue: Queue) -> JobHandle:
    """Claim the one job that must be there."""
    (handle,) = queue.claim("worker")
    return handle


def live(store: Store, job_id: int) -> Job:
    """Return a live job that must be there."""
    job = store.get_job(job_id)
    assert job is not None, f"there is no live job {job_id}"
    return job


def schedule(store: Store, name: str) -> Schedule:
    """Return a schedule that must be there."""
    found = store.get_schedule(name)
    assert found is not None, f"there is no schedule {name}"
    return found


def boundary(store: Store, name: str) -> datetime:
    """Return the next boundary of a schedule that must have one."""
    following = schedule(store, name).next_fire_at
    assert following is not None
    return following


def fire_once(engine: EngineHarness, store: Store, queue: str, lead: float) -> float:
    """Register a schedule that fires into *queue* once, *lead* seconds from now.

    Returns:
        How many seconds that became: more on a machine that is too slow for so few.
    """
    while True:
        moment = engine.now() + timedelta(seconds=lead)
        made = store.schedule("proof of a leader", "@every 36500d", queue, None, starts_at=moment)
        if made.next_fire_at == moment:  # it has not passed already
            return lead
        lead *= 2
