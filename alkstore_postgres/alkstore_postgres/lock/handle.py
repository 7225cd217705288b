"""The handle of a lock that was taken."""

from __future__ import annotations

import logging
from types import TracebackType

from alkstore._typing import Self, override
from alkstore.arguments import Seconds, positive_seconds
from alkstore.errors import AlkstoreError
from alkstore.runners.say import say
from alkstore_postgres.lock.keeper import Keeper

logger = logging.getLogger(__name__)


class PostgresLockHandle:
    """One acquisition of a lock (trait `alkstore.LockHandle`).

    It belongs to the process that took it: the copy in the child of a fork is lost.

    Args:
        keeper: What is known about the lease.
    """

    def __init__(self, keeper: Keeper) -> None:
        self._keeper = keeper

    @property
    def name(self) -> str:
        """The lock's name."""
        return self._keeper.lease.name

    @property
    def owner(self) -> str:
        """Who holds it; unique per handle unless it was given."""
        return self._keeper.lease.owner

    @property
    def token(self) -> int:
        """The fencing token: each fresh acquisition of this lock gets a larger one."""
        return self._keeper.lease.token

    @property
    def lost(self) -> bool:
        """Whether it is known that the lock is no longer held; true stays true.

        A renewal or a release has learnt it. With ``keep_alive`` also: no renewal has
        succeeded for a whole TTL, whatever the reason.
        """
        return self._keeper.lost

    def renew(self, ttl: Seconds | None = None) -> bool:
        """Let the lease end *ttl* from now (``None``: the TTL it was taken with).

        With ``keep_alive`` the next renewal comes when less than two thirds of the
        original TTL are left.

        Returns:
            Whether the lock is still this handle's; when not, nothing changed.

        Raises:
            InvalidOption: *ttl* is no duration of at least a millisecond.
            DatabaseError: The database failed; nothing is known then.
        """
        return self._keeper.renew(None if ttl is None else positive_seconds(ttl, "ttl"))

    def release(self) -> bool:
        """Free the lock and wake those who wait for it.

        Returns:
            Whether it was still this handle's; when not, nothing changed.

        Raises:
            DatabaseError: The database failed; nothing is known then.
        """
        return self._keeper.release()

    def __enter__(self) -> Self:
        """Return the handle.

        Raises:
            LockTimeout: It was released, is known to be lost, or was entered before.
        """
        self._keeper.enter()
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

    @override
    def __repr__(self) -> str:
        """Show what is held."""
        return f"<{type(self).__name__} {self.name!r} token={self.token}>"
