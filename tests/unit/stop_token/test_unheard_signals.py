"""A signal is heard although it was noted just before the main thread fell asleep.

Whatever that thread sleeps in, the handler runs soon (contract section 10); field case B88.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import pytest

from alkstore import StopToken, Store
from alkstore.memory import MemoryStore
from alkstore.stop_token import SLICE, Parker
from tests.support.timing import in_time
from tests.support.unheard_signals import HEARD, until_heard

LONG = 30.0


@pytest.mark.parametrize("timeout", [None, LONG])
def test_a_parked_main_thread_hears_it(timeout: float | None) -> None:
    parker = Parker()
    in_time(lambda: until_heard(lambda: parker.park(timeout), parker.unpark), HEARD)


def test_a_token_hears_it() -> None:
    def attempt() -> float:
        stop = StopToken()
        return until_heard(stop.wait, stop.cancel)

    in_time(attempt, HEARD)


def listen(store: Store, stop: StopToken) -> None:
    with store.listen("emails") as listener:
        listener.wait(LONG, stop)


def claim(store: Store, stop: StopToken) -> None:
    store.queue("emails").claim_wait("w", timeout=LONG, stop=stop)


def lock(store: Store, stop: StopToken) -> None:
    with store.lock("held", LONG), pytest.raises(Exception, match="stopped"):
        store.lock("held", LONG, LONG, stop)


def schedule(store: Store, stop: StopToken) -> None:
    store.run_schedules(stop)


def relay(store: Store, stop: StopToken) -> None:
    store.outbox("events").run("w", print, stop)


@pytest.mark.parametrize("call", [listen, claim, lock, schedule, relay])
def test_each_blocking_call_of_the_memory_engine_hears_it(
    call: Callable[[Store, StopToken], None],
) -> None:
    def attempt() -> float:
        stop = StopToken()
        return until_heard(lambda: call(store, stop), stop.cancel)

    with MemoryStore() as store:
        in_time(attempt, HEARD)


def test_who_waits_for_the_end_of_a_runner_hears_it() -> None:
    with MemoryStore() as store:

        def attempt() -> float:
            runner = store.start_worker("emails", print)
            return until_heard(lambda: runner.join(LONG), lambda: runner.stop(0))

        in_time(attempt, HEARD)


@pytest.mark.parametrize("timeout", [2.2 * SLICE, 2 * SLICE, SLICE, SLICE / 10])
def test_slices_neither_shorten_nor_lengthen_a_sleep_of_the_main_thread(timeout: float) -> None:
    assert threading.current_thread() is threading.main_thread()
    parker = Parker()

    def attempt() -> float:
        began = time.monotonic()
        assert not parker.park(timeout)
        took = time.monotonic() - began
        assert took >= timeout - 0.001
        return took

    in_time(attempt, timeout + 0.1)


def test_a_wake_ends_a_sleep_of_the_main_thread_in_any_slice() -> None:
    for after in (SLICE / 5, 1.2 * SLICE):
        parker = Parker()
        waker = threading.Timer(after, parker.unpark)
        waker.start()
        began = time.monotonic()
        assert parker.park(LONG)
        assert time.monotonic() - began < LONG / 2
        assert not parker.park(0), "one wake is one wake"
        waker.join()
