"""A kept lock that went unrenewed past its TTL was lost for a while, whoever looked or not."""

from __future__ import annotations

import pytest

from alkstore import LockHandle, Store
from alkstore.memory.lock_handle import MemoryLockHandle
from alkstore_postgres.lock.handle import PostgresLockHandle
from alkstore_postgres.lock.keeper import Keeper
from tests.contract.conftest import Harness

TTL = 60.0


@pytest.fixture
def late(engine: Harness, store: Store, monkeypatch: pytest.MonkeyPatch) -> LockHandle:
    """Return a kept lock whose thread has come to nothing for longer than its TTL."""
    for keeper in (MemoryLockHandle, Keeper):
        monkeypatch.setattr(keeper, "start", lambda _: None)
    handle = store.try_lock("door", TTL, keep_alive=True)
    assert handle is not None
    engine.advance(TTL + 1)
    if isinstance(handle, PostgresLockHandle):  # it goes by the time of this machine
        handle._keeper._certain_until -= TTL + 1
    return handle


def test_it_says_so_after_a_release_that_nobody_looked_before(late: LockHandle) -> None:
    assert late.release()  # nobody has taken it meanwhile
    assert late.lost
    assert not late.renew()
    assert not late.release()


def test_it_says_so_when_another_has_taken_it(engine: Harness, late: LockHandle) -> None:
    assert engine.open().try_lock("door", TTL) is not None
    assert not late.release()
    assert late.lost


def test_a_release_in_time_leaves_it_unlost_for_ever(engine: Harness, store: Store) -> None:
    with store.lock("window", TTL, keep_alive=True) as handle:
        assert not handle.lost
    engine.advance(TTL + 1)
    if isinstance(handle, PostgresLockHandle):
        handle._keeper._certain_until -= TTL + 1
    assert not handle.lost
