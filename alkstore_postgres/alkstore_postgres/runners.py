"""The scheduler runner of a store: how it leads, and how it stands by."""

from __future__ import annotations

from alkstore.errors import LeadershipLost
from alkstore.names import SCHEDULER_LOCK
from alkstore.runners import SchedulerRunner
from alkstore.runners.leader_watch import LeaderWatch
from alkstore.stop_token import Parker, StopToken
from alkstore_postgres.parts import Parts
from alkstore_postgres.scheduler.pacing import Pacing
from alkstore_postgres.scheduler.term import SteppedDown


def scheduler_runner(parts: Parts) -> SchedulerRunner:
    """Make the scheduler of a store over *parts*, not started."""
    turns = _Turns(parts)
    return SchedulerRunner(turns.lead, turns.stand_by, parts.registry.review)


class _Turns:
    """Leads, and between two tries to lead listens for the release of the lease.

    It listens from before a try until after the sleep: a release that falls between the
    refusal and the sleep is remembered. Only after it has stepped down it sleeps deaf: the
    release is its own then, and the lease is for others for a while.

    Args:
        parts: The store's parts.
    """

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._parker = Parker()
        self._hears = False
        self._pacing = Pacing()

    def lead(self, stop: StopToken, watch: LeaderWatch) -> None:
        """Lead until *stop* is cancelled."""
        self._hear()
        try:
            self._parts.lead(stop, watch)
        except SteppedDown:
            self._deafen()
            raise
        except LeadershipLost:
            raise
        except BaseException:
            self._deafen()
            raise
        self._deafen()

    def stand_by(self, seconds: float | None, stop: StopToken) -> None:
        """Wait until the lease is released, or may have lapsed."""
        # Deaf, it does not wait where its own term may have left a wake, or yet leaves one.
        parker = self._parker if self._hears else Parker()
        stop.attach(parker)
        try:
            if parker.park(seconds):
                self._rest(stop)
            elif seconds is not None:
                self._pacing.slept(seconds)
        finally:
            stop.detach(parker)
            if stop.cancelled:
                self._deafen()

    def _rest(self, stop: StopToken) -> None:
        """Rest before the next try, when wakes that are not for a standby follow each other.

        Every change of a schedule is told to whoever leads, on the same channel.
        """
        debt = self._pacing.take()
        if debt and not stop.wait(debt):
            self._pacing.slept(debt)

    def _hear(self) -> None:
        if not self._hears:
            self._parker = Parker()
            self._parts.hub.attach(SCHEDULER_LOCK, self._wake)
            self._hears = True

    def _deafen(self) -> None:
        if self._hears:
            self._parts.hub.detach(SCHEDULER_LOCK, self._wake)
            self._hears = False

    def _wake(self, _name: str) -> None:
        self._parker.unpark()
