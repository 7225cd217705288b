"""Section 10: wakes."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable

import pytest

from alkstore.errors import InvalidOption
from alkstore.stop_token import StopToken
from alkstore.testing.contract.base import (
    LIMIT,
    PROMPT,
    Background,
    Contract,
    claim,
    fall_asleep,
    wait_until,
)
from alkstore.traits import Listener, Store
from alkstore.values import Wake


def hears(listener: Listener, channel: str) -> bool:
    """Return whether a wake of *channel* comes."""
    return listener.wait(LIMIT) == Wake(channel)


def _in_transaction(store: Store) -> None:
    with store.transaction() as tx:
        store.enqueue_tx(tx, "mail", 1)


CAUSES: dict[str, Callable[[Store], object]] = {
    "enqueue": lambda store: store.queue("mail").enqueue(1),
    "enqueue_many": lambda store: store.queue("mail").enqueue_many([1]),
    "an enqueue with a delay": lambda store: store.queue("mail").enqueue(1, delay=3600),
    "an enqueue in a transaction": _in_transaction,
    "retry": lambda store: claim(store.queue("mail")).retry("x", 0),
    "a retry with a delay": lambda store: claim(store.queue("mail")).retry("x", 3600),
    "a retry on the curve": lambda store: claim(store.queue("mail")).retry("x"),
    "release": lambda store: claim(store.queue("mail")).release(),
    "run_now": lambda store: store.run_now("s"),
}


def take_what_was_said(store: Store, *listeners: Listener) -> None:
    """Have listeners, of ``mark`` and others, hear all that was said to them up to now.

    One that was connected late hears something for each channel at first.
    """
    store.notify("mark")
    for listener in listeners:
        while (wake := listener.wait(LIMIT)) != Wake("mark"):
            assert wake is not None, "a wake was not heard"
    fall_asleep()
    for listener in listeners:
        while listener.wait(0) is not None:
            pass


def _waiting(waiters: list[Background[Wake | None]]) -> int:
    """Return how many of *waiters* have heard nothing yet."""
    return sum(waiter.running for waiter in waiters)


class WakesContract(Contract):
    """A wake is its channel and a hint; a mechanism's name is its channel."""

    def test_a_wake_is_heard_by_every_listener_of_its_channel(
        self, store: Store, other: Store
    ) -> None:
        with (
            store.listen("news", "mark") as one,
            other.listen("news", "sport", "mark") as two,
            other.listen("sport", "mark") as three,
        ):
            take_what_was_said(store, one, two, three)
            store.notify("news")
            assert hears(one, "news")
            assert hears(two, "news")
            assert three.wait(0) is None
            other.notify("sport")
            assert hears(two, "sport")
            assert hears(three, "sport")

    @pytest.mark.parametrize("deaf", ["n", "new", "news ", "news2", "News", "*", "n%", "%", "_ews"])
    def test_a_wake_reaches_no_channel_that_is_almost_its_own(
        self, store: Store, other: Store, deaf: str
    ) -> None:
        with other.listen(deaf, "mark") as listener:
            take_what_was_said(store, listener)
            store.notify("news")
            store.notify("mark")
            assert hears(listener, "mark")
            assert listener.wait(0.05) is None

    @pytest.mark.parametrize("cause", CAUSES.values(), ids=CAUSES)
    def test_who_listens_on_a_queues_name_hears_what_happens_to_it(
        self, store: Store, other: Store, cause: Callable[[Store], object]
    ) -> None:
        store.queue("mail").enqueue(1)
        store.schedule("s", "@every 1h", "mail", 1)
        with other.listen("mail", "mark") as listener:
            take_what_was_said(store, listener)
            cause(store)
            assert hears(listener, "mail")

    def test_who_listens_on_a_locks_name_hears_its_release(
        self, store: Store, other: Store
    ) -> None:
        held = store.try_lock("door", 60)
        assert held is not None
        with other.listen("door") as listener:
            assert held.release()
            assert hears(listener, "door")

    def test_a_listener_hears_only_what_is_sent_from_its_beginning_on(
        self, store: Store, other: Store
    ) -> None:
        with store.listen("news", "mark") as early:
            take_what_was_said(store, early)
            other.notify("news")
            assert hears(early, "news")
            with store.listen("news") as late:
                assert late.wait(0.05) is None
                other.notify("news")
                assert hears(late, "news")

    def test_each_wake_goes_to_one_of_the_threads_that_wait(
        self, store: Store, other: Store
    ) -> None:
        with store.listen("news", "mark") as listener:
            take_what_was_said(store, listener)
            waiters = [Background(listener.wait) for _ in range(3)]
            for left in (2, 1, 0):
                fall_asleep()
                other.notify("news")
                wait_until(lambda left=left: _waiting(waiters) <= left)  # type: ignore[misc]
                fall_asleep()
                assert _waiting(waiters) == left
            assert [waiter.result() for waiter in waiters] == [Wake("news")] * 3

    def test_a_wake_that_nobody_waits_for_is_remembered(self, store: Store) -> None:
        with store.listen("news") as listener:
            store.notify("news")
            fall_asleep()
            assert hears(listener, "news")

    def test_wakes_of_two_channels_that_nobody_waits_for_are_remembered_both(
        self, store: Store, other: Store
    ) -> None:
        with store.listen("news", "sport") as listener:
            other.notify("news")
            other.notify("sport")
            fall_asleep()
            heard = [listener.wait(LIMIT) for _ in range(2)]
            assert sorted(wake.channel for wake in heard if wake) == ["news", "sport"]

    def test_a_wait_ends_when_the_time_is_up(self, store: Store) -> None:
        with store.listen("news") as listener:
            assert listener.wait(0) is None
            assert listener.wait(0.02) is None

    def test_closing_a_listener_ends_its_waits_and_its_iteration(self, store: Store) -> None:
        listener = store.listen("news")
        waiter = Background(listener.wait)
        iteration = Background(lambda: list(listener))
        fall_asleep()
        listener.close()
        listener.close()
        assert waiter.result(PROMPT) is None
        assert iteration.result(PROMPT) == []
        assert listener.wait(0) is None

    def test_leaving_the_block_of_a_listener_closes_it(self, store: Store) -> None:
        with store.listen("news") as listener:
            waiter = Background(listener.wait)
            fall_asleep()
            assert waiter.running
        assert waiter.result(PROMPT) is None
        listener = store.listen("news")
        with pytest.raises(ZeroDivisionError), listener:
            _ = 1 / 0
        assert Background(lambda: list(listener)).result(PROMPT) == []

    def test_a_listener_that_was_dropped_is_collected_heard_or_not(self, store: Store) -> None:
        listeners = [store.listen("news"), store.listen("news", "sport")]
        store.notify("news")
        assert hears(listeners[0], "news")
        dropped = [weakref.ref(listener) for listener in listeners]
        listeners.clear()

        def are_gone() -> bool:
            gc.collect()
            return all(ref() is None for ref in dropped)

        wait_until(are_gone, PROMPT)
        store.notify("news")
        with store.listen("news") as another:
            store.notify("news")
            assert hears(another, "news")

    def test_an_iteration_yields_wakes(self, store: Store) -> None:
        listener = store.listen("news")
        store.notify("news")
        for wake in listener:
            assert wake == Wake("news")
            listener.close()

    def test_a_stop_ends_a_wait(self, store: Store) -> None:
        stop = StopToken()
        with store.listen("news") as listener:
            waiter = Background(lambda: listener.wait(stop=stop))
            fall_asleep()
            stop.cancel()
            assert waiter.result(PROMPT) is None

    def test_a_listener_needs_a_channel(self, store: Store) -> None:
        with pytest.raises(InvalidOption):
            store.listen()

    def test_closing_the_store_ends_every_wait(self, store: Store) -> None:
        waiter = Background(store.listen("news").wait)
        fall_asleep()
        store.close()
        assert waiter.result(PROMPT) is None
