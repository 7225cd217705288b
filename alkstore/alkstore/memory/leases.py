"""Leases: rows that belong to an owner until a time on the store clock.

Names are not checked here: the scheduler's lease is a reserved one. `alkstore.memory.locks`
is the public entry.
"""

from __future__ import annotations

from dataclasses import dataclass

from alkstore.memory.access import Access
from alkstore.memory.clock import later
from alkstore.memory.data import LockRow, MemoryData


@dataclass(frozen=True, slots=True)
class Lease:
    """One acquisition of a lock.

    Attributes:
        name: The lock's name.
        owner: Who took it.
        token: The fencing token, larger than that of any earlier acquisition.
    """

    name: str
    owner: str
    token: int


class Leases:
    """Takes, renews and releases leases.

    Args:
        access: The way to the tables.
    """

    def __init__(self, access: Access) -> None:
        self._access = access

    def acquire(self, name: str, owner: str, ttl: float) -> Lease | float:
        """Take the lease if it was never taken, was released, or has lapsed.

        Returns:
            The lease; or for how many more seconds, unless it is renewed, another one
            holds.
        """
        with self._access.tables() as data:
            now = data.clock.now()
            row = data.locks.setdefault(name, LockRow(token=0, owner=None, expires_at=None))
            if row.owner is not None and row.expires_at is not None and row.expires_at > now:
                return (row.expires_at - now).total_seconds()
            row.owner = owner
            row.token += 1
            row.expires_at = later(now, ttl)
            return Lease(name, owner, row.token)

    def renew(self, lease: Lease, ttl: float) -> bool:
        """Let *lease* end *ttl* seconds from now, unless somebody else took it."""
        with self._access.tables() as data:
            row = _row(data, lease)
            if row is None:
                return False
            row.expires_at = later(data.clock.now(), ttl)
            return True

    def release(self, lease: Lease) -> bool:
        """Free *lease* and wake those who wait for it, unless somebody else took it."""
        with self._access.tables():
            return self.give_up(lease)

    def give_up(self, lease: Lease) -> bool:
        """Do the same, also when the store was closed meanwhile."""
        data = self._access.data
        with data.lock:
            row = _row(data, lease)
            if row is None:
                return False
            row.owner = row.expires_at = None
            data.wakes.wake(lease.name)
            return True

    def seconds_left(self, name: str) -> float:
        """Return for how many seconds the present lease holds unless it is renewed."""
        with self._access.tables() as data:
            row = data.locks.get(name)
            if row is None or row.owner is None or row.expires_at is None:
                return 0.0
            return max((row.expires_at - data.clock.now()).total_seconds(), 0.0)


def _row(data: MemoryData, lease: Lease) -> LockRow | None:
    row = data.locks.get(lease.name)
    if row is None or (row.owner, row.token) != (lease.owner, lease.token):
        return None
    return row
