"""The keeper: what a handle knows about its lease, and the thread that renews it."""

from __future__ import annotations

import logging
import os
import threading
import time
from typing import Final

from alkstore.errors import AlkstoreError, LockTimeout, StoreClosed
from alkstore.runners.say import say
from alkstore.stop_token import Parker
from alkstore_postgres.database.ending import holding
from alkstore_postgres.lock.leases import Lease, Leases

RENEWALS_PER_TTL: Final = 3
"""A kept lease is renewed when a third of its TTL has gone by."""

_SHORTEST_NAP = 0.01
_RETRIES_PER_TTL = 10
_LONGEST_RETRY = 2.0
"""A renewal that failed is tried again after so many seconds at the latest: a long lease is safe
again soon after an outage."""

logger = logging.getLogger(__name__)


class Keeper:
    """One lease as this process sees it.

    What counts is the database; this is what is known of it here. A lease is certain until
    one TTL after the moment *before* its last successful acquisition or renewal was sent,
    on the monotonic clock: the row cannot lapse earlier than that.

    Args:
        leases: The lease statements.
        lease: The lease.
        ttl: The TTL it was taken with, in seconds.
        sent: `time.monotonic` from before the acquisition was sent.
        keep_alive: Whether `start` will be called.
    """

    def __init__(
        self, leases: Leases, lease: Lease, ttl: float, sent: float, *, keep_alive: bool
    ) -> None:
        self.lease = lease
        self._leases = leases
        self._ttl = ttl
        self._certain_until = sent + ttl
        self._keep_alive = keep_alive
        self._pid = os.getpid()
        self._gone = False
        self._released = False
        self._doubted = False
        self._failing = False
        self._entry = threading.Lock()  # taken by the one block, and never given back
        self._parker = Parker()
        # The statements wait for nobody: two of one handle must not get in each other's way.
        self._exchange = threading.RLock()

    @property
    def lost(self) -> bool:
        """Whether the lease is known to be gone, or is kept and was not renewed in time."""
        if self._pid != os.getpid():
            return True
        if self._gone and not self._released:
            return True
        self._doubt_if_late()
        return self._doubted

    def start(self) -> None:
        """Renew from a thread of its own until released or lost.

        Raises:
            RuntimeError: No thread can be started.
        """
        threading.Thread(
            target=self._keep, name=f"alkstore-lock-{self.lease.name[:40]}", daemon=True
        ).start()

    def enter(self) -> None:
        """Let one block, ever, rely on the lease; see `PostgresLockHandle.__enter__`."""
        if self._released or self.lost:
            state = "lost" if self.lost else "released"
            msg = f"lock {self.lease.name!a} was {state}: the block would run without it"
            raise LockTimeout(msg)
        if not self._entry.acquire(blocking=False):
            msg = (
                f"lock {self.lease.name!a} was entered before: each block takes a handle of its own"
            )
            raise LockTimeout(msg)

    def renew(self, ttl: float | None) -> bool:
        """Renew; see `PostgresLockHandle.renew`."""
        if self._released or self.lost:
            return False
        if not self._renew(self._ttl if ttl is None else ttl):
            return False
        self._parker.unpark()  # the next renewal is due at another time now
        return True

    def release(self) -> bool:
        """Release; see `PostgresLockHandle.release`."""
        if self._released or self._gone or self._pid != os.getpid():
            return False
        self._doubt_if_late()  # also when nobody has looked: the body may have run unprotected
        was_kept, self._keep_alive = self._keep_alive, False
        self._parker.unpark()
        try:
            with holding(self._exchange):
                freed = self._leases.release(self.lease)
        except AlkstoreError:
            # Unknown: it may be tried again, and nobody renews it meanwhile.
            self._doubted = self._doubted or was_kept
            raise
        if freed:
            self._released = True
        else:
            self._gone = True
        return freed

    def _doubt_if_late(self) -> None:
        if self._keep_alive and time.monotonic() >= self._certain_until:
            # Once told, it stays told: who looked has given up the work.
            self._doubted = True

    def _renew(self, ttl: float) -> bool:
        with holding(self._exchange):
            sent = time.monotonic()
            if self._released:
                return False
            if not self._leases.renew(self.lease, ttl):
                self._gone = True
                return False
            self._certain_until = sent + ttl
            return True

    def _keep(self) -> None:
        nap: float | None = self._until_renewal()
        while nap is not None:
            self._parker.park(max(nap, _SHORTEST_NAP))
            nap = self._turn() if self._is_kept() else None
        if self._is_kept() and self.lost:
            say(
                logger,
                logging.WARNING,
                "lock %r was lost (token %d)",
                self.lease.name,
                self.lease.token,
            )

    def _is_kept(self) -> bool:
        return self._keep_alive and self._pid == os.getpid()

    def _turn(self) -> float | None:
        """Renew if it is time; return the seconds to sleep, or ``None`` at the end."""
        if self.lost:
            return None
        nap = self._until_renewal()
        if nap > 0:
            return nap
        try:
            held = self._renew(self._ttl)
        except StoreClosed:
            return None
        except AlkstoreError as error:
            if not self._failing:
                say(
                    logger,
                    logging.WARNING,
                    "lock %r could not be renewed: %s",
                    self.lease.name,
                    error,
                )
            self._failing = True
            return min(self._ttl / _RETRIES_PER_TTL, _LONGEST_RETRY)
        self._failing = False
        return self._until_renewal() if held else None

    def _until_renewal(self) -> float:
        """Return the seconds until a third of the TTL has gone."""
        left = self._certain_until - time.monotonic()
        return left - self._ttl * (1 - 1 / RENEWALS_PER_TTL)
