"""The scheduler: leads, or stands by."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

from alkstore._typing import override
from alkstore.errors import LeadershipLost
from alkstore.runners.leader_watch import LeaderWatch
from alkstore.runners.review import NoAnswer, Review
from alkstore.runners.status import Status
from alkstore.runners.supervisor import Supervisor
from alkstore.runners.threads import Threads
from alkstore.stop_token import StopToken
from alkstore.values import RunnerState

Lead = Callable[[StopToken, LeaderWatch], None]
"""Leads until the token is cancelled, and tells its second argument of each turn, good or
failed; raises `LeadershipLost` when another leads."""

StandBy = Callable[["float | None", StopToken], None]
"""Waits until the lease is said to be free, for so many seconds, or until the stop."""

_PART = "leadership"

_JITTER = 0.25
"""The longest time, in seconds, that a standby waits on after the lease has ended, so that
not all of them come at once."""

_UNKNOWN = 5.0
"""How long to stand by when nobody knows how long the lease still holds, in seconds."""


class SchedulerRunner(Supervisor):
    """One thread that leads whenever no other scheduler does.

    A call of its loop that is under way at the stop is waited for: it has not ended before the
    lease is given back.

    Its state is ``leading`` from the first good turn as the leader, ``standby`` while
    another leads, and ``backing-off`` after an error that is not a lost leadership, until
    the next good turn; also when its lease has not been renewed in time, whatever its loop
    is stuck in.

    Args:
        lead: Leads, and blocks meanwhile.
        standby: Waits for the lease.
        review: Returns what is wrong with the schedules: under ``late`` the names of those
            that should have fired long ago, under ``quarantined`` the reason for each that
            cannot be fired. Asked by `health` while this runner leads or wants to go on
            leading, in a thread of its own: it may block.
    """

    def __init__(
        self,
        lead: Lead,
        standby: StandBy,
        review: Callable[[], Mapping[str, Any]] | None = None,
    ) -> None:
        super().__init__("scheduler")
        self._lead = lead
        self._standby = standby
        self._review = None if review is None else Review(review, "alkstore scheduler: review")
        self._found: dict[str, Any] = {}
        self._unanswered: str | None = None
        self._office = _Office(self._status, self._threads)

    @property
    @override
    def state(self) -> RunnerState:
        """What it is doing; never ``leading`` after its lease has ended by itself."""
        state = super().state
        if state == "leading" and time.monotonic() > self._office.until:
            return "backing-off"
        return state

    @override
    def _begin(self) -> None:
        self._spawn(_PART, self._run)

    def _run(self) -> None:
        while not self._token.cancelled:
            try:
                self._hold_office()
            except LeadershipLost as lost:
                if lost.__cause__ is None:  # otherwise its own failures made it step down
                    self._status.good(_PART, "standby")
                self._standby(self._patience_of(lost), self._token)
            else:
                return

    def _hold_office(self) -> None:
        try:
            self._lead(self._token, self._office)
        finally:
            self._office.held = False

    @staticmethod
    def _patience_of(lost: LeadershipLost) -> float:
        holds = _UNKNOWN if lost.retry_after is None else max(lost.retry_after, 0.0)
        return holds + random.uniform(0.0, _JITTER)  # noqa: S311 - no secret

    @override
    def _problem(self) -> str | None:
        if self._review is None or not self._office.held:
            return None
        try:
            answer = self._review.answer()
        except NoAnswer as error:
            self._unanswered = str(error)
            return self._unanswered if error.lasts > self._patience else None
        self._unanswered = None
        self._found = found = {kind: names for kind, names in answer.items() if names}
        late = found.get("late")
        return f"{len(late)} schedules should have fired long ago" if late else None

    @override
    def _details(self) -> dict[str, Any]:
        if not self._office.held:
            return {}
        unanswered = self._unanswered
        return self._found | ({} if unanswered is None else {"unanswered": unanswered})


class _Office:
    """What the leader loop has told so far.

    Args:
        status: Where good turns and failures are noted.
        threads: Which threads are waited for at the stop.

    Attributes:
        held: Whether there was a good turn, and the loop goes on.
        until: When the lease ends unless it is renewed, as `time.monotonic` tells.
    """

    def __init__(self, status: Status, threads: Threads) -> None:
        self._status = status
        self._threads = threads
        self.held = False
        self.until = 0.0

    def led(self, until: float) -> None:
        """Note a good turn of the leader; see `LeaderWatch`."""
        self.until = until
        self.held = True
        self._status.good(_PART, "leading")

    def failed(self, error: BaseException) -> None:
        """Note a turn that failed; see `LeaderWatch`."""
        self._status.failed(_PART, error)

    def left(self, thread: threading.Thread) -> None:
        """Wait for the call of the loop that is still under way; see `LeaderWatch`."""
        self._threads.adopt(thread)
