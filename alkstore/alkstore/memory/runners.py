"""The scheduler runner of a store: how it leads, and how it stands by."""

from __future__ import annotations

from alkstore.errors import LeadershipLost
from alkstore.memory.access import Access, Sleeper
from alkstore.memory.leader import Leading
from alkstore.memory.schedules import Schedules
from alkstore.names import SCHEDULER_LOCK
from alkstore.runners import SchedulerRunner
from alkstore.runners.leader_watch import LeaderWatch
from alkstore.stop_token import StopToken


def scheduler_runner(access: Access, leading: Leading, schedules: Schedules) -> SchedulerRunner:
    """Make the scheduler of a store, not started.

    Args:
        access: The store's way to its tables.
        leading: Its leader loops.
        schedules: Its schedules.
    """
    turns = _Turns(access, leading)
    return SchedulerRunner(turns.lead, turns.stand_by, schedules.review)


class _Turns:
    """Leads, and between two tries to lead waits for the release of the lease.

    It hears from before a try until after the sleep: a release that falls between the
    refusal and the sleep is remembered.
    """

    def __init__(self, access: Access, leading: Leading) -> None:
        self._access = access
        self._leading = leading
        self._sleeper: Sleeper | None = None

    def lead(self, stop: StopToken, watch: LeaderWatch) -> None:
        """Lead until *stop* is cancelled."""
        if self._sleeper is None:
            self._sleeper = Sleeper(self._access, SCHEDULER_LOCK, stop).__enter__()
        try:
            self._leading.run(stop, watch)
        except LeadershipLost:
            raise
        except BaseException:
            self._deafen()
            raise
        self._deafen()

    def stand_by(self, seconds: float | None, stop: StopToken) -> None:
        """Wait until the lease is released, or may have lapsed."""
        if self._sleeper is not None:
            self._sleeper.sleep(seconds)
        if stop.cancelled:
            self._deafen()

    def _deafen(self) -> None:
        if self._sleeper is not None:
            self._sleeper.__exit__(None, None, None)
            self._sleeper = None
