"""Section 1: what the end of a store is to those who wait in it, and to what they hold."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from alkstore.errors import StoreClosed
from alkstore.stop_token import StopToken
from alkstore.testing.contract.base import (
    PROMPT,
    Background,
    Contract,
    claim,
    fall_asleep,
    live,
    refused,
)
from alkstore.traits import Store

_WAITS: dict[str, Callable[[Store], object]] = {
    "claim_wait": lambda store: store.queue("q").claim_wait("w"),
    "claim_wait, timeout": lambda store: store.queue("q").claim_wait("w", timeout=3600),
    "jobs": lambda store: list(store.queue("q").jobs("w")),
    "lock": lambda store: store.lock("door", 60),
    "lock, timeout": lambda store: store.lock("door", 60, timeout=3600),
    "run of an outbox": lambda store: store.outbox("o").run("w", print, StopToken()),
    "run_schedules": lambda store: store.run_schedules(StopToken()),
}


class ClosingWaitsContract(Contract):
    """Whoever waits learns of the end at once, and nothing that is held is touched by it."""

    @pytest.mark.parametrize("call", _WAITS)
    def test_the_end_of_the_store_ends_whoever_waits(
        self, store: Store, other: Store, call: str
    ) -> None:
        held = other.try_lock("door", 3600)
        assert held is not None
        waiter = Background(lambda: _WAITS[call](store))
        # It takes a moment until the store is closed: it has sent the wakes that it owed.
        store.queue("another").enqueue_many([1, 2])
        fall_asleep()
        assert waiter.running
        store.close()
        with refused(StoreClosed, call):
            waiter.result(PROMPT)
        assert held.release()

    def test_what_was_claimed_and_locked_by_a_closed_store_says_so_and_stays(
        self, store: Store, other: Store
    ) -> None:
        store.queue("q").enqueue(1)
        handle = claim(store.queue("q"))
        store.queue("q").enqueue(2, max_attempts=1)
        last = claim(store.queue("q"))
        lock = store.try_lock("door", 3600)
        assert lock is not None
        before = [live(other, handle.id), live(other, last.id)]
        store.close()
        calls: dict[str, Callable[[], object]] = {
            "ack": handle.ack,
            "retry": lambda: handle.retry("x"),
            "retry, delay": lambda: handle.retry("x", 5),
            "retry of the last attempt": lambda: last.retry("x"),
            "fail": lambda: handle.fail("x"),
            "release": handle.release,
            "heartbeat": handle.heartbeat,
            "renew": lock.renew,
            "release of a lock": lock.release,
        }
        for name, call in calls.items():
            with refused(StoreClosed, name):
                call()
        assert [live(other, handle.id), live(other, last.id)] == before
        assert (handle.settled, handle.lost) == (False, False)
        assert other.try_lock("door", 60) is None
