"""Section 6: locks that are kept alive."""

from __future__ import annotations

import time
from typing import Any

import pytest

from alkstore.errors import InvalidOption, StoreClosed
from alkstore.testing.contract.base import Contract, wait_until
from alkstore.testing.harness import EngineHarness
from alkstore.traits import LockHandle, Store


def take(store: Store, ttl: float = 60, **options: Any) -> LockHandle:
    """Take the lock that must be free."""
    handle = store.try_lock("door", ttl, **options)
    assert handle is not None
    return handle


def is_kept(engine: EngineHarness, store: Store, other: Store, ttl: float) -> bool:
    """Return whether kept locks are still held after far more than their *ttl* seconds.

    Who keeps them may go by real time or by the store clock, woken by its steps or not: each
    sleep is long enough for a renewal, and a sleep's part and a step together are no whole TTL.
    """
    with (
        take(store, ttl, keep_alive=True) as tried,
        store.lock("window", ttl, timeout=0, keep_alive=True) as waited,
    ):
        for _ in range(7):
            time.sleep(ttl * 0.45)
            engine.advance(ttl * 0.3)
        thieves = [other.try_lock("door", 60), other.try_lock("window", 60)]
        kept = thieves == [None, None] and not tried.lost and not waited.lost
    for thief in thieves:
        if thief is not None:
            assert thief.release()
    return kept


class KeptLocksContract(Contract):
    """A kept lock is renewed from a thread, and its body learns that it was lost."""

    def test_keep_alive_ends_with_the_block(self, store: Store, other: Store) -> None:
        with take(store, keep_alive=True) as handle:
            assert other.try_lock("door", 60) is None
            assert not handle.lost
        assert other.try_lock("door", 60) is not None

    def test_keep_alive_renews_the_lease(
        self, engine: EngineHarness, store: Store, other: Store
    ) -> None:
        # It may renew by real time: a machine that is too slow for one TTL gets a longer one.
        assert any(is_kept(engine, store, other, ttl) for ttl in (0.9, 3, 9))

    def test_keep_alive_tells_the_body_that_the_lock_was_lost(
        self, engine: EngineHarness, store: Store, other: Store
    ) -> None:
        handle = take(store, 1.5, keep_alive=True)
        thief = None
        while thief is None:
            engine.advance(10)
            thief = other.try_lock("door", 3600)
        wait_until(lambda: handle.lost)
        assert thief.renew()
        assert not handle.release()

    @pytest.mark.parametrize("keep", [float("nan"), "", "yes", -1, 0, 1, None, []], ids=repr)
    def test_a_lock_is_kept_alive_or_it_is_not(self, store: Store, keep: Any) -> None:
        with pytest.raises(InvalidOption, match=r"^keep_alive must be True or False, not "):
            store.try_lock("door", 60, keep_alive=keep)
        with pytest.raises(InvalidOption, match=r"^keep_alive must be True or False, not "):
            store.lock("door", 60, timeout=0, keep_alive=keep)
        assert take(store).release()

    @pytest.mark.parametrize("looked", [True, False], ids=["seen", "unseen"])
    def test_a_kept_lock_that_nobody_could_renew_stays_lost_though_nobody_could_release_it(
        self, engine: EngineHarness, store: Store, *, looked: bool
    ) -> None:
        ttl = 0.2
        handle = take(store, ttl, keep_alive=True)
        store.close()
        # Whether it goes by the store clock or by the time of its machine, the TTL is over.
        time.sleep(ttl)
        engine.advance(ttl)
        if looked:
            wait_until(lambda: handle.lost)
        with pytest.raises(StoreClosed):
            handle.release()
        assert handle.lost
        assert not handle.renew()

    def test_a_kept_lock_that_was_lost_for_a_while_stays_so_whatever_its_release_finds(
        self, engine: EngineHarness, store: Store
    ) -> None:
        handle = take(store, 60, keep_alive=True)
        engine.advance(61)
        # An engine whose keeper goes by the time of its machine has lost nothing yet.
        told = handle.lost
        freed = handle.release()
        assert handle.lost == (told or not freed)
        assert not handle.renew()
        assert not handle.release()
