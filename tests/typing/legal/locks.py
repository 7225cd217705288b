"""Uses of locks that every type checker must accept. Checked, never run."""

from __future__ import annotations

from datetime import timedelta

from typing_extensions import assert_type

from alkstore import LockHandle, LockTimeout, StopToken, Store


def taking_a_lock(store: Store, stop: StopToken) -> None:
    """Without waiting it may be none; waiting it is one."""
    assert_type(store.try_lock("door", 10), LockHandle | None)
    assert_type(store.try_lock("door", timedelta(seconds=5), "me"), LockHandle | None)
    assert_type(store.try_lock("door", ttl=0.5, owner=None, keep_alive=True), LockHandle | None)
    assert_type(store.lock("door", 10), LockHandle)
    assert_type(store.lock("door", timedelta(seconds=5), 1.5, stop, "me"), LockHandle)
    try:
        store.lock("door", ttl=5, timeout=timedelta(1), stop=stop, owner="me", keep_alive=True)
    except LockTimeout as timeout:
        assert_type(timeout, LockTimeout)


def holding_a_lock(held: LockHandle) -> None:
    """A handle is kept, and given back."""
    assert_type(held.name, str)
    assert_type(held.owner, str)
    assert_type(held.token, int)
    assert_type(held.lost, bool)
    assert_type(held.renew(), bool)
    assert_type(held.renew(ttl=timedelta(seconds=5)), bool)
    assert_type(held.release(), bool)


def a_handle_is_a_context_manager(store: Store) -> None:
    """It is given back at the end of the block."""
    free = store.try_lock("door", ttl=10)
    if free is not None:
        with free as held:
            assert_type(held, LockHandle)
    with store.lock("door", 5, keep_alive=True) as held:
        assert_type(held, LockHandle)
