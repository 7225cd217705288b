"""Whoever wants to lead just as the store closes leaves no lease behind."""

from __future__ import annotations

import threading

import pytest

from alkstore import StopToken, Store, StoreClosed
from alkstore._typing import override
from alkstore.memory import MemoryStore
from alkstore.names import SCHEDULER_LOCK
from alkstore.testing.contract.base import LIMIT, Background, wait_until
from alkstore_postgres import PostgresStore
from tests.contract.conftest import Harness


class LateStop(StopToken):
    """Holds its runner up at the moment when the store does not know of it yet."""

    def __init__(self) -> None:
        super().__init__()
        self.reached = threading.Event()
        self.go = threading.Event()

    @override
    def child(self) -> StopToken:
        self.reached.set()
        assert self.go.wait(LIMIT)
        return super().child()


def test_a_leader_that_comes_as_its_store_closes_leaves_no_lease(
    engine: Harness, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert isinstance(store, MemoryStore | PostgresStore)
    parts = store._access if isinstance(store, MemoryStore) else store._made
    stop, refuse_everything = LateStop(), parts.close
    runner = Background(lambda: store.run_schedules(stop))
    assert stop.reached.wait(LIMIT)

    def closing() -> None:
        """Let it go on when the leaders were ended, and close when it has come to something."""
        stop.go.set()
        wait_until(lambda: not runner.running or engine.lease_owner(SCHEDULER_LOCK))
        refuse_everything()

    monkeypatch.setattr(parts, "close", closing)
    store.close()
    with pytest.raises(StoreClosed):
        runner.result()
    assert engine.lease_owner(SCHEDULER_LOCK) is None
