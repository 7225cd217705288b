"""The public entry to locks: try, or wait."""

from __future__ import annotations

import secrets

from alkstore.arguments import Seconds, positive_seconds, true_or_false, wait_seconds
from alkstore.errors import InvalidName, InvalidOption, LockTimeout
from alkstore.memory.access import Access, Sleeper
from alkstore.memory.leases import Lease, Leases
from alkstore.memory.lock_handle import MemoryLockHandle
from alkstore.names import check_name
from alkstore.stop_token import StopToken, check_optional_stop


class Locks:
    """Takes locks.

    Args:
        access: The way to the tables.
    """

    def __init__(self, access: Access) -> None:
        self._access = access
        self._leases = Leases(access)

    def try_lock(
        self, name: str, ttl: Seconds, owner: str | None = None, *, keep_alive: bool = False
    ) -> MemoryLockHandle | None:
        """Take a lock if it is free, without waiting; see `Store.try_lock`."""
        wanted = _Wanted(name, ttl, owner, keep_alive)
        outcome = self._attempt(wanted)
        return outcome if isinstance(outcome, MemoryLockHandle) else None

    def lock(
        self,
        name: str,
        ttl: Seconds,
        timeout: Seconds | None = None,
        stop: StopToken | None = None,
        owner: str | None = None,
        *,
        keep_alive: bool = False,
    ) -> MemoryLockHandle:
        """Take a lock, waiting until it is free; see `Store.lock`."""
        wanted = _Wanted(name, ttl, owner, keep_alive)
        limit = wait_seconds(timeout)
        stop = check_optional_stop(stop)
        self._access.check_open()
        with Sleeper(self._access, wanted.name, stop, limit) as sleeper:
            while stop is None or not stop.cancelled:
                outcome = self._attempt(wanted)
                if isinstance(outcome, MemoryLockHandle):
                    return outcome
                if sleeper.left <= 0:
                    msg = f"lock {wanted.name!a} was not free within {limit:g} s"
                    raise LockTimeout(msg)
                sleeper.sleep(outcome)
        msg = f"the wait for lock {wanted.name!a} was stopped"
        raise LockTimeout(msg)

    def _attempt(self, wanted: _Wanted) -> MemoryLockHandle | float:
        """Return a handle, or for how many seconds another one holds the lock."""
        lease = self._leases.acquire(wanted.name, wanted.owner, wanted.ttl)
        if not isinstance(lease, Lease):
            return lease
        handle = MemoryLockHandle(self._access, lease, wanted.ttl, keep_alive=wanted.keep_alive)
        if wanted.keep_alive:
            try:
                handle.start()
            except BaseException:
                handle.release()  # nobody would renew it, and nobody has the handle
                raise
        return handle


class _Wanted:
    """A checked wish for a lock."""

    __slots__ = ("keep_alive", "name", "owner", "ttl")

    def __init__(self, name: object, ttl: object, owner: object, keep_alive: object) -> None:
        self.name = check_name(name, "lock")
        self.ttl = positive_seconds(ttl, "ttl")
        self.owner = secrets.token_hex(16) if owner is None else _check_owner(owner)
        self.keep_alive = true_or_false(keep_alive, "keep_alive")


def _check_owner(owner: object) -> str:
    try:
        return check_name(owner, "lock owner")
    except InvalidName as error:
        raise InvalidOption(str(error)) from None
