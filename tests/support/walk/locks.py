"""The random walk over locks."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from alkstore import LockHandle, LockTimeout, Store
from tests.support.two_engines import Pair
from tests.support.walk.choices import (
    LOCKS,
    lengths,
    numbers,
    picks,
    spans,
    stopped,
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
            self.locks.append(Pair(taken.memory, taken.postgres))

    @precondition(lambda self: self.locks)
    @rule(pick=picks, release=st.booleans(), ttl=st.none() | lengths | st.just(0))
    def keep_or_release_a_lock(self, pick: int, release: bool, ttl: Any) -> None:
        held = self.locks[-1 - pick % len(self.locks)]
        self.engines.on(held, lambda handle: handle.release() if release else handle.renew(ttl))

    @rule(
        number=numbers,
        name=st.sampled_from(LOCKS),
        what=st.sampled_from(["nothing", "release", "renew", "enter again", "raise"]),
        keep_alive=st.booleans(),
    )
    def hold_a_lock_for_a_block(self, number: int, name: str, what: str, keep_alive: bool) -> None:
        """No time passes meanwhile, so that no thread has anything to renew."""

        def work(store: Store) -> list[Any] | None:
            handle = store.try_lock(name, 3600, keep_alive=keep_alive)
            return None if handle is None else [handle, *_block(handle, what), handle]

        self.engines.call(number, work)

    @precondition(lambda self: self.locks)
    @rule(number=numbers, pick=picks, span=st.just(0) | spans, ttl=st.none() | lengths)
    def let_time_pass_in_a_block(self, *, number: int, pick: int, span: float, ttl: Any) -> None:
        """Enter with any handle, a stale one as well; another may take the lock meanwhile."""
        held = self.locks[-1 - pick % len(self.locks)]
        entered = self.engines.on(held, lambda handle: [handle.__enter__(), handle.lost])
        if entered is None:
            return
        self.engines.advance(timedelta(seconds=span))
        if ttl is not None:
            self.engines.call(number, lambda store: store.try_lock(held.memory.name, ttl))
        self.engines.on(held, lambda handle: handle.__exit__(None, None, None))

    @rule(number=numbers, name=st.sampled_from(LOCKS))
    def wait_for_a_lock_when_stopped(self, number: int, name: str) -> None:
        self.engines.call(number, lambda store: store.lock(name, 1, stop=stopped()))


def _block(handle: LockHandle, what: str) -> list[Any]:
    """Go through a block; return what was to be seen there."""
    seen: list[Any] = []
    try:
        with handle as entered:
            seen += [entered is handle, handle.lost]
            if what == "release":
                seen.append(handle.release())
            if what == "renew":
                seen.append(handle.renew(7200))
            if what == "enter again":
                handle.__enter__()
            if what == "raise":
                raise ValueError  # noqa: TRY301 - leaves the block
    except (LockTimeout, ValueError) as error:
        seen += [type(error).__name__, str(error)]
    return [*seen, handle.lost, handle.release()]
