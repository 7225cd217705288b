"""The leader loop: exactly one runner fires schedules, and another takes over when it ends."""

from __future__ import annotations

import logging
import math
import threading
import time
import uuid
from typing import Final

from alkstore.errors import LeadershipLost, StoreClosed
from alkstore.memory.access import Access, Sleeper
from alkstore.memory.leases import Lease, Leases
from alkstore.memory.schedules import Schedules
from alkstore.names import SCHEDULER_LOCK
from alkstore.runners.leader_watch import LeaderWatch
from alkstore.runners.say import say
from alkstore.stop_token import StopToken

TTL: Final = 10.0
"""How long the lease holds without a renewal, in seconds."""

RENEWAL: Final = 2.0
"""How long after a renewal the next one comes at the latest, in seconds."""

_PATIENCE = 1.0

logger = logging.getLogger("alkstore.scheduler")


class Leading:
    """The leader loops of one store.

    Args:
        access: The way to the tables.
        schedules: Fires what is due.
    """

    def __init__(self, access: Access, schedules: Schedules) -> None:
        self._access = access
        self._leases = Leases(access)
        self._schedules = schedules
        self._loops: dict[int, tuple[StopToken, threading.Event, int]] = {}
        self._over = False

    def run(self, stop: StopToken, watch: LeaderWatch | None = None) -> None:
        """Lead until *stop* is cancelled; see `Scheduler.run_schedules`.

        Args:
            stop: Ends the loop.
            watch: Told of each good turn as the leader; what fails ends the loop.

        Raises:
            LeadershipLost: Another runner holds the lease, or took it; with the seconds
                until that lease ends as ``retry_after``.
            StoreClosed: The store was closed meanwhile; the lease was given back.
        """
        own, ended, thread = stop.child(), threading.Event(), threading.get_ident()
        self._loops[id(own)] = own, ended, thread
        if self._over:
            own.cancel()  # the end of the store may have looked before
        try:
            self._lead(own, watch)
        finally:
            del self._loops[id(own)]
            ended.set()
        if not stop.cancelled:
            msg = "the store is closed"
            raise StoreClosed(msg)

    def stop_all(self) -> None:
        """End the loops that still run, and let them give the lease back; none begins any more."""
        self._over = True
        running = list(self._loops.values())
        for own, _, _ in running:
            own.cancel()
        for _, ended, thread in running:
            # One of this thread was interrupted by a signal, and goes on after its handler.
            if thread != threading.get_ident():
                ended.wait(_PATIENCE)

    def after_fork(self) -> None:
        """Forget the parent's loops."""
        self._loops = {}

    def _lead(self, stop: StopToken, watch: LeaderWatch | None) -> None:
        with Sleeper(self._access, SCHEDULER_LOCK, stop) as sleeper:
            if stop.cancelled:
                return
            lease = self._leases.acquire(SCHEDULER_LOCK, uuid.uuid4().hex, TTL)
            if not isinstance(lease, Lease):
                msg = "another scheduler leads"
                raise LeadershipLost(msg, retry_after=lease)
            say(logger, logging.INFO, "leading: lease %d is held by %s", lease.token, lease.owner)
            try:
                while not stop.cancelled:
                    until = self._end_of_lease()
                    nap = self._turn(lease)
                    if watch is not None:
                        watch.led(until)
                    sleeper.sleep(nap)
            finally:
                released = self._leases.give_up(lease)
                say(
                    logger,
                    logging.INFO,
                    "lease %d %s",
                    lease.token,
                    "given back" if released else "was lost",
                )

    def _turn(self, lease: Lease) -> float:
        """Renew the lease and fire what is due; return how long to sleep, in seconds."""
        self._schedules.tick(lambda: self._renew(lease))
        left = self._schedules.until_soonest()
        return RENEWAL if left is None else min(left, RENEWAL)

    def _end_of_lease(self) -> float:
        """Return until when a lease that is renewed now holds, as `time.monotonic` tells."""
        left = self._access.data.clock.nap(TTL)
        return math.inf if left is None else time.monotonic() + left

    def _renew(self, lease: Lease) -> None:
        if not self._leases.renew(lease, TTL):
            left = self._leases.seconds_left(SCHEDULER_LOCK)
            msg = "the scheduler's lease is not held any more"
            raise LeadershipLost(msg, retry_after=left)
