"""The random walk over locks."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from alkstore import LockHandle, Store
from tests.support.two_engines import Pair
from tests.support.walk.choices import (
    LOCKS,
    lengths,
    numbers,
    picks,
    workers,
)
from tests.support.walk.ground import Ground


class LockRules(Ground):
    """Locks: taken, kept and released."""

    @rule(
        number=numbers,
        name=st.sampled_from(LOCKS),
        ttl=lengths,
        owner=st.none() | workers,
        wait=st.booleans(),
    )
    def take_a_lock(
        self, *, number: int, name: str, ttl: Any, owner: str | None, wait: bool
    ) -> None:
        def work(store: Store) -> LockHandle | None:
            if wait:
                return store.lock(name, ttl, timeout=0, owner=owner)
            return store.try_lock(name, ttl, owner)

        taken = self.engines.call(number, work)
        if taken is not None and taken.memory is not None and taken.postgres is not None:
            assert owner is None or taken.memory.owner == taken.postgres.owner == owner
            self.locks.append(Pair(taken.memory, taken.postgres))

    @precondition(lambda self: self.locks)
    @rule(pick=picks, release=st.booleans(), ttl=st.none() | lengths | st.just(0))
    def keep_or_release_a_lock(self, pick: int, release: bool, ttl: Any) -> None:
        held = self.locks[-1 - pick % len(self.locks)]
        self.engines.on(held, lambda handle: handle.release() if release else handle.renew(ttl))
