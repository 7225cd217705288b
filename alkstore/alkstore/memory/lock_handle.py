"""The handle of a lock that was taken, and the thread that keeps it alive."""

from __future__ import annotations

import logging
import threading
from datetime import datetime
from types import TracebackType
from typing import Final

from alkstore._typing import Self, override
from alkstore.arguments import Seconds, positive_seconds
from alkstore.errors import AlkstoreError, LockTimeout, StoreClosed
from alkstore.memory.access import Access, Sleeper
from alkstore.memory.clock import later
from alkstore.memory.leases import Lease, Leases
from alkstore.runners.say import say

RENEWALS_PER_TTL: Final = 3
"""A kept lease is renewed when a third of its TTL has gone by."""

logger = logging.getLogger(__name__)


class MemoryLockHandle:
    """One acquisition of a lock (trait `alkstore.LockHandle`).

    Args:
        access: The store's way to its tables.
        lease: The lease.
        ttl: The TTL it was taken with, in seconds.
        keep_alive: Whether `start` will be called.
    """

    def __init__(self, access: Access, lease: Lease, ttl: float, *, keep_alive: bool) -> None:
        self._access = access
        self._leases = Leases(access)
        self._lease = lease
        self._ttl = ttl
        self._keep_alive = keep_alive
        self._released = False
        self._gone = False
        self._lost = False
        self._entered = False
        self._holds_until = self._from_now(ttl)
        self._renew_at = self._from_now(ttl / RENEWALS_PER_TTL)
        self._sleeper = Sleeper(access, lease.name)

    @property
    def name(self) -> str:
        """The lock's name."""
        return self._lease.name

    @property
    def owner(self) -> str:
        """Who holds it; unique per handle unless it was given."""
        return self._lease.owner

    @property
    def token(self) -> int:
        """The fencing token: each fresh acquisition of this lock gets a larger one."""
        return self._lease.token

    @property
    def lost(self) -> bool:
        """Whether it is known that the lock is no longer held; true stays true.

        A renewal or a release has learnt it. With ``keep_alive`` also: no renewal came for
        a whole TTL of the store clock.
        """
        if self._keep_alive and self._access.data.clock.now() >= self._holds_until:
            self._lost = True
        return self._lost

    def renew(self, ttl: Seconds | None = None) -> bool:
        """Let the lease end *ttl* from now (``None``: the TTL it was taken with).

        Returns:
            Whether the lock is still this handle's; when not, nothing changed.

        Raises:
            InvalidOption: *ttl* is no duration of at least a millisecond.
            StoreClosed: The store was closed.
        """
        length = self._ttl if ttl is None else positive_seconds(ttl, "ttl")
        with self._access.data.lock:
            if self._released or self.lost:
                return False
            if not self._leases.renew(self._lease, length):
                self._gone = self._lost = True
                return False
            self._holds_until = self._from_now(length)
            # As long before the end as ever: two thirds of the TTL that it was taken with.
            self._renew_at = self._from_now(length - self._ttl * (1 - 1 / RENEWALS_PER_TTL))
        self._sleeper.unpark()
        return True

    def release(self) -> bool:
        """Free the lock and wake those who wait for it.

        Returns:
            Whether it was still this handle's; when not, nothing changed.

        Raises:
            StoreClosed: The store was closed, and it is not known to be gone already.
        """
        with self._access.data.lock:
            if self._released:
                return False
            lost, was_kept, self._keep_alive = self.lost, self._keep_alive, False
            self._sleeper.unpark()
            if self._gone:
                return False
            # When the store is closed it stays unknown, and nobody renews it any more.
            self._lost = lost or was_kept
            self._released = self._leases.release(self._lease)
            self._gone = not self._released
            self._lost = lost or self._gone
            return self._released

    def start(self) -> None:
        """Renew from a thread of its own until released or lost.

        Raises:
            RuntimeError: No thread can be started.
        """
        threading.Thread(
            target=self._keep, name=f"alkstore-lock-{self.name[:40]}", daemon=True
        ).start()

    def __enter__(self) -> Self:
        """Return the handle.

        Raises:
            LockTimeout: It was released, is known to be lost, or was entered before.
        """
        with self._access.data.lock:
            if self._released or self.lost:
                state = "was lost" if self.lost else "was released"
                msg = f"lock {self.name!a} {state}: the block would run without it"
                raise LockTimeout(msg)
            if self._entered:
                msg = f"lock {self.name!a} was entered before: each block takes a handle of its own"
                raise LockTimeout(msg)
            self._entered = True
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Release the lock; when that fails, the lease ends by itself."""
        try:
            self.release()
        except AlkstoreError as error:
            say(
                logger,
                logging.WARNING,
                "lock %r could not be released, its lease ends by itself: %s",
                self.name,
                error,
            )

    def _keep(self) -> None:
        with self._sleeper as sleeper:
            while self._keep_alive and not self._access.closed:
                now = self._access.data.clock.now()
                try:
                    if now >= self._renew_at and not self.renew():
                        break
                except StoreClosed:
                    return
                sleeper.sleep((self._renew_at - now).total_seconds())
        if self._keep_alive and self.lost:
            say(logger, logging.WARNING, "lock %r was lost (token %d)", self.name, self.token)

    def _from_now(self, length: float) -> datetime:
        return later(self._access.data.clock.now(), length)

    @override
    def __repr__(self) -> str:
        """Show what is held."""
        return f"<{type(self).__name__} {self.name!r} token={self.token}>"
