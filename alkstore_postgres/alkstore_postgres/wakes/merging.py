"""What is known of the wakes of one name: which were sent, and which are owed."""

from __future__ import annotations

import math
from collections import deque
from typing import Final

WINDOW: Final = 0.2
"""While workers are busy a name sends one wake in so many seconds."""

BURST: Final = 3.0
"""How many enqueues in a row may carry their wakes themselves."""

SPARSE: Final = 0.1
"""An enqueue that comes so many seconds after the one before it carries its wake."""

ASKING: Final = 0.02
"""One that comes so many seconds after the last that carried its wake, or asked, asks whether to:
it looks whether the job that the last wake was for is done. Each time that it is not, twice as
many pass before the next one asks, up to `WINDOW`."""

SLOW_FACTOR: Final = 20.0
"""Neither when that was less than so many times as long ago as the last one that carried a wake has
taken. Where it is slow, commits line up for it; so, beside the one that goes in each `WINDOW`, a
process that enqueues one by one stands in that line a twentieth of the time at most."""

SHORTEST_LOOK: Final = 0.005
"""A worker may have become idle in so many seconds: the soonest time to look again."""

LONGEST_LOOK: Final = 0.05
"""The longest time until the next look while jobs wait, in seconds: so much later than its
enqueue an idle worker may hear of a job in a stream that found it busy before."""

_REMEMBERED = 64


class Merging:
    """The books of one name.

    A stream of enqueues need not wake anybody while workers are busy, since a worker that
    has done its job looks at the table again. Whether they are can be seen there: a job
    for which a wake was sent and that still waits is one that nobody was idle for. So the
    next wake is owed when that job is gone, and another one that was stored since waits.

    The owner changes these from one thread at a time, but for `add`, `ask`, `carried` and `spend`,
    whose every step is a single operation on a deque or an attribute: threads that enqueue at
    the same moment may carry a wake too many.

    Attributes:
        woken: The job for which the last wake was sent, if it was due then.
        look_at: When to look again, as `time.monotonic` tells.
    """

    __slots__ = (
        "_asked",
        "_began",
        "_came_at",
        "_gap",
        "_ids",
        "_is_asleep",
        "_left",
        "_pause",
        "_sent_at",
        "_slow",
        "_stamp",
        "_unheeded",
        "_vague",
        "look_at",
        "woken",
    )

    def __init__(self, now: float) -> None:
        self.woken: int | None = None
        self.look_at = now
        # More than the last one: of two threads the one that commits last may tell first.
        self._ids: deque[int] = deque(maxlen=_REMEMBERED)
        self._vague = False
        self._is_asleep = False
        self._unheeded = False
        self._left = BURST
        self._stamp = now
        self._came_at = self._began = now - WINDOW
        self._slow = 0.0
        self._asked: int | None = None
        self._gap = ASKING
        self._sent_at = now - WINDOW
        self._pause = SHORTEST_LOOK

    def spend(self, now: float) -> bool:
        """Return whether the enqueue that begins now carries its wake.

        It does when it comes alone, or when the allowance holds a wake, which it takes.
        """
        pause, self._came_at = now - self._came_at, now
        left = min(BURST, self._left + (now - self._stamp) / WINDOW)
        if left < 1 and pause < max(SPARSE, self._slow):
            return False
        self._left = max(left - 1, 0.0)
        self._stamp = self._began = self._sent_at = now
        return True

    def ask(self, now: float) -> int | None:
        """Return which job the enqueue that begins now asks for; ``None``: it does not ask.

        When that one is done, whoever did it may be idle, and the enqueue carries its wake. A
        worker that still has it, or one that nobody has taken, says nothing of that kind. While
        others wait that nobody was told of, the sender is about to look.
        """
        # The same one again: the last question was in vain, and the next one may well be.
        gap = self._gap if self.woken == self._asked else ASKING
        if self._ids or now - self._began < max(gap, self._slow):
            return None
        self._gap = min(gap * 2, WINDOW)
        self._began, self._asked = now, self.woken
        return self.woken

    def carried(self, now: float, job_id: int | None) -> None:
        """Note that an enqueue which carried its wake is committed.

        Args:
            now: The time.
            job_id: The job, when it can be claimed already.
        """
        self._slow = (now - self._began) * SLOW_FACTOR
        self._sent_at = now
        if job_id is not None:
            self.woken = job_id

    def add(self, job_id: int | None) -> bool:
        """Note a job that was stored without a wake.

        Args:
            job_id: The job, when it can be claimed already; ``None``: something else that
                waiters have to know.

        Returns:
            Whether the sender, which sleeps until it may tell of something else, is to look now.
        """
        if job_id is None:
            self._vague = True
            return False
        self._ids.append(job_id)
        return self._is_asleep and self._awake()

    def _awake(self) -> bool:
        was_asleep, self._is_asleep = self._is_asleep, False
        if was_asleep:
            self.look_at = -math.inf
        return was_asleep

    def take(self, now: float, *, anyway: bool = False) -> tuple[list[int], bool] | None:
        """Return the jobs to look for, and whether to wake in any case; ``None``: later.

        Args:
            now: The time, as `time.monotonic` tells.
            anyway: There is no later.
        """
        jobs: list[int] = []
        while self._ids:
            jobs.append(self._ids.popleft())
        # What waits although it was told of is told of again, a few times a second.
        again = now >= self._sent_at + WINDOW and (self._vague or self._unheeded)
        forced = again or anyway
        if not jobs and not forced:
            self.look_at = self._sent_at + WINDOW
            self._is_asleep = True
            if self._ids:  # added meanwhile, by somebody who took it for awake
                self._awake()
            return None
        self._is_asleep = False
        if forced:
            self._vague = False
        if now - self.look_at > LONGEST_LOOK:
            self._pause = SHORTEST_LOOK
        return jobs, forced

    def answered(self, now: float, answer: tuple[int | None, bool] | None) -> None:
        """Note what a look came to.

        Args:
            now: The time.
            answer: A job that waits, or ``None`` when somebody had all of them already, and
                whether a wake was sent; ``None``: the database was away.
        """
        if answer is None:
            self.look_at = now + WINDOW
            return
        waiting, sent = answer
        self._unheeded = waiting is not None and not sent
        if sent:
            self._sent_at = now
            self.woken = waiting
            self._pause = SHORTEST_LOOK
        else:
            self._pause = min(self._pause * 2, LONGEST_LOOK)
            if waiting is not None:
                # Whoever takes this one looks behind it: what is older is seen then.
                self._ids.append(waiting)
        self.look_at = now + self._pause

    @property
    def owes(self) -> bool:
        """Whether something was stored that nobody was told of."""
        return bool(self._ids) or self._vague

    def is_quiet(self, now: float) -> bool:
        """Return whether nothing would be lost by forgetting it."""
        return now - self._sent_at > BURST * WINDOW and not self.owes
