"""The rest of daemon threads at the interpreter's end: it ends, and nobody waits for it."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from alkstore import StoreClosed
from alkstore_postgres.database import ending


class Clock:
    """A clock that goes on in sleeps alone.

    Attributes:
        slept: The sleeps so far, in seconds.
    """

    def __init__(self) -> None:
        self._now = 1000.0
        self.slept: list[float] = []

    def monotonic(self) -> float:
        return self._now

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self._now += seconds


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """The clock; the main thread has closed the stores at the end of the interpreter."""
    clock = Clock()
    monkeypatch.setattr(ending, "time", clock)
    monkeypatch.setattr(ending, "_ended_by", None)
    monkeypatch.setattr(ending, "_rest_until", 0.0)
    ending.close_stores()
    return clock


def in_thread(work: Callable[[], object], *, daemon: bool) -> None:
    """Run *work* in a thread to its end."""
    thread = threading.Thread(target=work, daemon=daemon)
    thread.start()
    thread.join(10)
    assert not thread.is_alive()


def test_daemon_threads_rest_and_all_rests_have_one_end(clock: Clock) -> None:
    for _ in range(3):
        in_thread(ending.rest_if_ending, daemon=True)
    assert clock.slept == [ending.REST, 0.0, 0.0]


def test_others_do_not_rest(clock: Clock) -> None:
    ending.rest_if_ending()  # the thread that runs the exit functions
    in_thread(ending.rest_if_ending, daemon=False)
    assert clock.slept == []


def test_nobody_rests_with_a_lock_in_his_hands(clock: Clock) -> None:
    lock = threading.RLock()
    under_lock: list[float] = []

    def ask() -> None:
        with ending.holding(lock), ending.holding(lock):
            ending.rest_if_ending()
            under_lock.extend(clock.slept)
            raise StoreClosed

    def work() -> None:
        with pytest.raises(StoreClosed):
            ask()

    in_thread(work, daemon=True)
    assert under_lock == []
    assert clock.slept == [ending.REST]
    assert lock.acquire(blocking=False)
