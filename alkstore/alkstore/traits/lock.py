"""Locks: rows with a lease on the store clock."""

from __future__ import annotations

from types import TracebackType
from typing import Protocol

from alkstore._typing import Self
from alkstore.arguments import Seconds


class LockHandle(Protocol):
    """One acquisition of a lock, and a context manager that releases it on exit.

    It is entered once: each block takes a handle of its own.

    `renew` and `release` succeed only while the row is this owner's. A lapsed lease is
    free for all; one that lapsed but that nobody took can still be renewed, unless it was to
    be kept alive: what relied on that has already been told that it is `lost`.
    """

    @property
    def name(self) -> str:
        """The lock's name."""
        ...

    @property
    def owner(self) -> str:
        """Who holds it; unique per handle unless it was given."""
        ...

    @property
    def token(self) -> int:
        """The fencing token: each fresh acquisition of this lock gets a larger one."""
        ...

    @property
    def lost(self) -> bool:
        """Whether a renewal or the release has learnt that the lock is no longer held.

        With ``keep_alive`` it also becomes true when no renewal has succeeded for a whole
        TTL, whatever the reason; it stays so when the release then finds that nobody else
        had taken the lock.
        """
        ...

    def renew(self, ttl: Seconds | None = None) -> bool:
        """Let the lease end *ttl* from now.

        Args:
            ttl: Seconds or `timedelta`; ``None``: the TTL it was taken with.

        Returns:
            Whether the lock is still this handle's; when not, nothing changed.

        Raises:
            InvalidOption: *ttl* is not a positive duration.
            DatabaseError: The database failed; nobody knows whether the lease was renewed.
            StoreClosed: The store was closed, and the lock is not known to be gone.
        """
        ...

    def release(self) -> bool:
        """Free the lock and wake those who wait for it.

        Returns:
            Whether it was still this handle's; when not, nothing changed.

        Raises:
            DatabaseError: The database failed; the lease ends by itself at the latest.
            StoreClosed: The store was closed, and the lock is not known to be gone.
        """
        ...

    def __enter__(self) -> Self:
        """Return the handle; nobody is asked whether the lock is held.

        Raises:
            LockTimeout: The handle was released, is known to be lost, or was entered before:
                the block would run without the lock, or would free it under another one.
        """
        ...

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Release the lock."""
        ...
