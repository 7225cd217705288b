"""The scheduler: leads, or stands by."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from typing import Any

from alkstore._typing import override
from alkstore.errors import AlkstoreError, LeadershipLost
from alkstore.runners.supervisor import Supervisor
from alkstore.stop_token import StopToken

Lead = Callable[[StopToken, Callable[[], None]], None]
"""Leads until the token is cancelled, and calls its second argument after each good turn;
raises `LeadershipLost` when another leads."""

StandBy = Callable[["float | None", StopToken], None]
"""Waits until the lease is said to be free, for so many seconds, or until the stop."""

_PATIENCE = 30.0
_PART = "leadership"

_JITTER = 0.25
"""The longest time, in seconds, that a standby waits on after the lease has ended, so that
not all of them come at once."""

_UNKNOWN = 5.0
"""How long to stand by when nobody knows how long the lease still holds, in seconds."""


class SchedulerRunner(Supervisor):
    """One thread that leads whenever no other scheduler does.

    Its state is ``leading`` from the first good turn as the leader, ``standby`` while
    another leads, and ``backing-off`` after an error that is not a lost leadership.

    Args:
        lead: Leads, and blocks meanwhile.
        standby: Waits for the lease.
        review: Returns what is wrong with the schedules: under ``late`` the names of those
            that should have fired long ago, under ``quarantined`` the reason for each that
            cannot be fired. Asked by `health` while this runner leads.
    """

    def __init__(
        self,
        lead: Lead,
        standby: StandBy,
        review: Callable[[], Mapping[str, Any]] | None = None,
    ) -> None:
        super().__init__("scheduler", _PATIENCE)
        self._lead = lead
        self._standby = standby
        self._review = review
        self._found: dict[str, Any] = {}

    @override
    def _begin(self) -> None:
        self._spawn(_PART, self._run)

    def _run(self) -> None:
        while not self._token.cancelled:
            try:
                self._lead(self._token, self._led)
            except LeadershipLost as lost:
                self._status.good(_PART, "standby")
                self._standby(self._patience_of(lost), self._token)
            else:
                return

    def _led(self) -> None:
        self._status.good(_PART, "leading")

    @staticmethod
    def _patience_of(lost: LeadershipLost) -> float:
        holds = _UNKNOWN if lost.retry_after is None else max(lost.retry_after, 0.0)
        return holds + random.uniform(0.0, _JITTER)  # noqa: S311 - no secret

    @override
    def _problem(self) -> str | None:
        self._found = {}
        if self._review is None or self._status.state != "leading":
            return None
        try:
            self._found = {kind: found for kind, found in self._review().items() if found}
        except AlkstoreError:
            return None  # the leader meets the same trouble and tells of it
        late = self._found.get("late")
        return f"{len(late)} schedules should have fired long ago" if late else None

    @override
    def _details(self) -> dict[str, Any]:
        return dict(self._found)
