"""Section 10: every blocking call of a store takes a stop token and returns on its cancellation."""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

import pytest

from alkstore.errors import InvalidOption, LockTimeout
from alkstore.stop_token import StopToken
from alkstore.testing.contract.base import PROMPT, Background, Contract, fall_asleep, refused
from alkstore.traits import Store


def _lock(store: Store, stop: StopToken) -> None:
    store.try_lock("door", 3600)
    with pytest.raises(LockTimeout):
        store.lock("door", 3600, stop=stop)


def _listen(store: Store, stop: StopToken) -> None:
    with store.listen("news") as listener:
        listener.wait(stop=stop)


BLOCKING: dict[str, Callable[[Store, StopToken], object]] = {
    "claim_wait": lambda store, stop: store.queue("mail").claim_wait("worker", stop=stop),
    "jobs": lambda store, stop: list(store.queue("mail").jobs("worker", stop=stop)),
    "lock": _lock,
    "listen": _listen,
    "run_schedules": lambda store, stop: store.run_schedules(stop),
    "outbox.run": lambda store, stop: store.outbox("mail").run("worker", print, stop),
}

blocking = pytest.mark.parametrize("call", BLOCKING.values(), ids=BLOCKING)


class StopTokensContract(Contract):
    """A cancellation ends whatever waits, from anywhere."""

    @blocking
    def test_a_cancellation_ends_it(
        self, store: Store, call: Callable[[Store, StopToken], object]
    ) -> None:
        stop = StopToken()
        waiter = Background(lambda: call(store, stop))
        fall_asleep()
        assert waiter.running
        stop.cancel()
        waiter.result(PROMPT)

    @blocking
    def test_the_cancellation_of_a_parent_ends_it(
        self, store: Store, call: Callable[[Store, StopToken], object]
    ) -> None:
        parent = StopToken()
        waiter = Background(lambda: call(store, parent.child()))
        fall_asleep()
        parent.cancel()
        waiter.result(PROMPT)

    @blocking
    def test_a_token_that_was_cancelled_before_ends_it_at_once(
        self, store: Store, call: Callable[[Store, StopToken], object]
    ) -> None:
        stop = StopToken()
        stop.cancel()
        call(store, stop)

    @blocking
    def test_anything_else_is_refused(
        self, store: Store, call: Callable[[Store, StopToken], object]
    ) -> None:
        for stop in cast("list[StopToken]", [True, 5, "stop", object()]):
            with refused(InvalidOption, stop):
                if call is _lock:
                    store.lock("door", 60, stop=stop)
                else:
                    call(store, stop)
