"""Section 6: locks."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest

from alkstore.errors import InvalidOption, LockTimeout
from alkstore.stop_token import StopToken
from alkstore.testing.contract.base import (
    LIMIT,
    PROMPT,
    Background,
    fall_asleep,
    refused,
)
from alkstore.testing.contract.kept_locks import KeptLocksContract, take
from alkstore.testing.harness import EngineHarness
from alkstore.traits import LockHandle, Store


def _lapse(engine: EngineHarness, store: Store) -> None:
    take(store, 10)
    engine.advance(11)


BEFORE: dict[str, Callable[[EngineHarness, Store], object]] = {
    "a free lock": lambda _, __: None,
    "a released lock": lambda _, store: take(store).release(),
    "a lapsed lock": _lapse,
}
"""What becomes of a lock before many come for it."""


class LocksContract(KeptLocksContract):
    """A lock is a row with a lease on the store clock."""

    def test_one_holds_it_at_a_time(self, store: Store, other: Store) -> None:
        handle = take(store)
        assert other.try_lock("door", 60) is None
        assert store.try_lock("door", 60) is None
        assert other.try_lock("window", 60) is not None
        assert handle.release()
        assert other.try_lock("door", 60) is not None

    def test_the_default_owner_is_unique_per_handle(self, store: Store) -> None:
        first = take(store)
        owner = first.owner
        assert first.release()
        assert take(store).owner != owner

    def test_a_given_owner_is_kept_and_does_not_let_itself_in_twice(
        self, store: Store, other: Store
    ) -> None:
        handle = take(store, owner="me")
        assert handle.owner == "me"
        for who in (store, other):
            assert who.try_lock("door", 60, owner="me") is None
            assert who.try_lock("door", 60, owner="you") is None
        assert handle.renew()

    def test_each_fresh_acquisition_gets_a_larger_token(
        self, engine: EngineHarness, store: Store, other: Store
    ) -> None:
        tokens = []
        for who in (store, other, store):
            handle = take(who)
            tokens.append(handle.token)
            assert handle.release()
        tokens.append(take(other, 5).token)
        engine.advance(6)
        tokens.append(take(store).token)
        assert tokens == sorted(set(tokens))

    def test_a_lapsed_lease_is_free_for_all(
        self, engine: EngineHarness, store: Store, other: Store
    ) -> None:
        first = take(store, 1000)
        engine.advance(900)
        assert other.try_lock("door", 1000) is None
        engine.advance(100)
        second = take(other, 1000)
        assert not first.renew()
        assert not first.release()
        assert first.lost
        assert store.try_lock("door", 10) is None
        assert second.renew()

    def test_a_lost_lock_is_never_renewed_back_under_the_same_owner(
        self, engine: EngineHarness, store: Store, other: Store
    ) -> None:
        first = take(store, 10, owner="me")
        engine.advance(11)
        second = take(other, 10, owner="me")
        assert not first.renew()
        assert not first.release()
        assert second.renew()

    def test_a_renewal_holds_from_now(
        self, engine: EngineHarness, store: Store, other: Store
    ) -> None:
        handle = take(store, 10)
        for _ in range(3):
            engine.advance(8)
            assert handle.renew()
        assert handle.renew(1000)
        engine.advance(900)
        assert other.try_lock("door", 1) is None
        engine.advance(100)
        assert other.try_lock("door", 1) is not None

    def test_a_renewal_without_a_ttl_goes_by_the_one_that_the_lock_was_taken_with(
        self, engine: EngineHarness, store: Store, other: Store
    ) -> None:
        handle = take(store, 10)
        assert handle.renew(60)
        assert handle.renew()
        engine.advance(11)
        assert other.try_lock("door", 1) is not None

    def test_a_renewal_may_shorten_the_lease(
        self, engine: EngineHarness, store: Store, other: Store
    ) -> None:
        handle = take(store, 1000)
        assert handle.renew(10)
        engine.advance(10)
        assert other.try_lock("door", 1) is not None

    @pytest.mark.parametrize("learn", ["renew", "release"])
    def test_a_handle_learns_by_any_call_that_the_lock_was_lost(
        self, engine: EngineHarness, store: Store, other: Store, learn: str
    ) -> None:
        handle = take(store, 10)
        engine.advance(11)
        take(other)
        assert not (handle.renew() if learn == "renew" else handle.release())
        assert handle.lost

    def test_a_lease_that_lapsed_but_that_nobody_took_is_still_the_holders(
        self, engine: EngineHarness, store: Store, other: Store
    ) -> None:
        handle = take(store, 10)
        token = handle.token
        engine.advance(60)
        assert handle.renew()
        assert handle.token == token
        assert other.try_lock("door", 10) is None
        engine.advance(60)
        assert handle.release()

    def test_a_released_lock_is_not_renewed(self, store: Store) -> None:
        handle = take(store)
        assert handle.release()
        assert not handle.release()
        assert not handle.renew()
        assert not handle.lost  # it was given up, not lost
        assert store.try_lock("door", 60) is not None

    def test_leaving_the_block_releases_it(self, store: Store) -> None:
        with take(store) as handle:
            assert not handle.lost
            assert store.try_lock("door", 60) is None
        with pytest.raises(ZeroDivisionError), take(store):
            _ = 1 / 0
        assert store.try_lock("door", 60) is not None

    def test_leaving_the_block_when_the_store_is_closed_leaves_the_bodys_error_alone(
        self, engine: EngineHarness, store: Store, other: Store
    ) -> None:
        closing = engine.open()
        with pytest.raises(ZeroDivisionError), take(store, 10), store:  # closed before the release
            _ = 1 / 0
        assert other.try_lock("door", 10) is None
        engine.advance(10)
        with take(closing, 10):
            closing.close()
        assert other.try_lock("door", 10) is None
        engine.advance(10)
        assert other.try_lock("door", 10) is not None

    def test_leaving_the_block_of_a_lost_lock_leaves_the_new_holder_alone(
        self, engine: EngineHarness, store: Store, other: Store
    ) -> None:
        with take(store, 10):
            engine.advance(11)
            second = take(other)
        assert second.renew()

    @pytest.mark.parametrize("end", ["its block", "release"])
    def test_a_released_handle_lets_nobody_in(self, store: Store, end: str) -> None:
        handle = take(store)
        if end == "release":
            assert handle.release()
        else:
            with handle:
                pass
        second = take(store)
        with pytest.raises(LockTimeout, match="'door' was released"), handle:
            pytest.fail("the block of a released lock ran")
        assert not handle.lost
        assert second.renew()

    def test_a_handle_that_knows_its_loss_lets_nobody_in(
        self, engine: EngineHarness, store: Store, other: Store
    ) -> None:
        handle = take(store, 10)
        engine.advance(11)
        take(other)
        assert not handle.renew()
        with pytest.raises(LockTimeout, match="'door' was lost"), handle:
            pytest.fail("the block of a lost lock ran")

    def test_a_handle_is_entered_once(self, store: Store, other: Store) -> None:
        handle = take(store)
        with handle:
            with pytest.raises(LockTimeout, match="'door' was entered before"), handle:
                pytest.fail("a second block of one handle ran")
            # What was refused has not freed it under the block that runs.
            assert other.try_lock("door", 60) is None
        assert other.try_lock("door", 60) is not None

    @pytest.mark.usefixtures("turns")
    def test_of_many_who_enter_one_handle_at_once_one_gets_in(self, store: Store) -> None:
        begin = threading.Barrier(4)

        def come(handle: LockHandle) -> bool:
            begin.wait(LIMIT)
            try:
                handle.__enter__()
            except LockTimeout:
                return False
            return True

        for _ in range(5):
            handle = take(store)
            comers = [Background(lambda: come(handle)) for _ in range(4)]  # noqa: B023
            assert sorted(comer.result() for comer in comers) == [False, False, False, True]
            assert handle.release()

    def test_a_free_lock_is_had_without_any_time_to_wait(self, store: Store) -> None:
        assert store.lock("door", 60, timeout=0).release()

    def test_who_waits_is_woken_by_the_release(self, store: Store, other: Store) -> None:
        held = take(store, 3600)
        waiter = Background(lambda: other.lock("door", 60, timeout=LIMIT))
        fall_asleep()
        assert waiter.running
        assert held.release()
        assert waiter.result(PROMPT).renew()

    def test_who_waits_gets_a_lease_that_lapses(
        self, engine: EngineHarness, store: Store, other: Store
    ) -> None:
        take(store, 3600)
        waiter = Background(lambda: other.lock("door", 60, timeout=LIMIT))
        fall_asleep()
        engine.advance(3601)
        assert waiter.result().renew()

    def test_a_wait_ends_with_its_time_limit_and_with_its_stop(
        self, store: Store, other: Store
    ) -> None:
        take(store, 3600)
        for timeout in (0, 0.05):
            with pytest.raises(LockTimeout):
                other.lock("door", 60, timeout=timeout)
        stop = StopToken()
        waiter = Background(lambda: other.lock("door", 60, stop=stop))
        fall_asleep()
        stop.cancel()
        with pytest.raises(LockTimeout):
            waiter.result(PROMPT)

    @pytest.mark.usefixtures("turns")
    @pytest.mark.parametrize("before", BEFORE.values(), ids=BEFORE)
    def test_of_many_who_come_at_once_one_gets_it(
        self,
        engine: EngineHarness,
        store: Store,
        before: Callable[[EngineHarness, Store], object],
    ) -> None:
        stores = [store, *(engine.open() for _ in range(3))] * 2
        begin, end = (threading.Barrier(len(stores) + 1) for _ in range(2))
        rounds = 60
        taken: list[LockHandle] = []
        releases: list[list[bool]] = []

        def come(who: Store) -> None:
            for _ in range(rounds):
                begin.wait(LIMIT)
                handle = who.try_lock("door", 60)
                if handle is not None:
                    taken.append(handle)
                end.wait(LIMIT)

        comers = [Background(lambda who=each: come(who)) for each in stores]  # type: ignore[misc]
        for _ in range(rounds):
            before(engine, store)
            begin.wait(LIMIT)
            end.wait(LIMIT)
            releases.append([handle.release() for handle in taken])
            taken.clear()
        for comer in comers:
            comer.result()
        assert releases == [[True]] * rounds

    @pytest.mark.usefixtures("turns")
    def test_one_store_serves_many_threads_with_locks(self, store: Store) -> None:
        begin = threading.Barrier(4)
        inside: list[int] = []
        tokens: list[int] = []

        def work(number: int) -> None:
            begin.wait(LIMIT)
            for _ in range(5):
                with store.lock("door", 3600, timeout=LIMIT) as handle:
                    inside.append(number)
                    tokens.append(handle.token)
                    assert handle.renew()
                    assert inside == [number]
                    inside.clear()
                own = store.try_lock(f"window {number}", 3600)
                assert own is not None
                assert own.release()

        threads = [Background(lambda number=each: work(number)) for each in range(4)]  # type: ignore[misc]
        for thread in threads:
            thread.result()
        assert len(tokens) == 20
        assert tokens == sorted(set(tokens))

    @pytest.mark.parametrize("owner", ["", "a\0b", "x" * 201, "__alkstore_me", 5, b"me"])
    def test_an_impossible_owner_is_refused(self, store: Store, owner: Any) -> None:
        with refused(InvalidOption, owner):
            store.try_lock("door", 60, owner)
        with refused(InvalidOption, owner):
            store.lock("door", 60, timeout=0, owner=owner)
        assert take(store).release()

    @pytest.mark.parametrize("ttl", [0, -1, "1", None, float("nan"), True])
    def test_an_impossible_ttl_is_refused(self, store: Store, ttl: Any) -> None:
        with pytest.raises(InvalidOption):
            store.try_lock("door", ttl)
        with pytest.raises(InvalidOption):
            store.lock("door", ttl, timeout=0)
        assert take(store).release()
