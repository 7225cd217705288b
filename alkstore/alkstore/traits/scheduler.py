"""Schedules: jobs that are fired at each boundary of a grid in time."""

from __future__ import annotations

from typing import Any, Protocol

from alkstore._typing import Unpack
from alkstore.options import ScheduleOptions
from alkstore.stop_token import StopToken
from alkstore.values import Schedule


class Scheduler(Protocol):
    """The part of a store that keeps schedules and fires them.

    A boundary's fires and the advance to the next boundary commit together, so each
    boundary fires exactly once, whoever ticks and whatever crashes.
    """

    def schedule(
        self, name: str, spec: str, queue: str, payload: Any, **options: Unpack[ScheduleOptions]
    ) -> Schedule:
        """Register a schedule, or change it, by name; return it as stored.

        Registering again with the same interval and ``starts_at`` keeps the next
        boundary; a changed one starts a new grid from now: its first boundary is one interval
        from now, or with ``starts_at`` that instant itself. Of a ``starts_at`` in the past the
        first boundary is the first one of its grid (``starts_at + k * interval``) after now:
        nothing before the registration is made up for.

        Args:
            name: The schedule's name.
            spec: ``@every <n><unit>`` with a unit of ``s m h d``.
            queue: The name of the queue that its jobs go to.
            payload: The payload of its jobs.
            **options: ``priority``, ``expires``, ``max_attempts``, ``starts_at``,
                ``catch_up``.

        Raises:
            InvalidName: *name* or *queue* breaks the naming rule.
            InvalidSpec: *spec* is not in the grammar.
            InvalidOption: An option is unknown or impossible.
            EncodeError: The payload has no encoding.
            PayloadTooLarge: It is larger than the store allows.
        """
        ...

    def unschedule(self, name: str) -> bool:
        """Remove a schedule. Fired jobs stay.

        Args:
            name: The schedule's name.

        Returns:
            Whether there was one.

        Raises:
            InvalidName: *name* breaks the naming rule (`ReservedName` when reserved).
        """
        ...

    def schedules(self) -> list[Schedule]:
        """Return all schedules by name, quarantined ones with the reason."""
        ...

    def get_schedule(self, name: str) -> Schedule | None:
        """Return one schedule.

        Args:
            name: The schedule's name.

        Returns:
            The schedule as stored, quarantined or not; ``None`` when there is none.

        Raises:
            InvalidName: *name* breaks the naming rule (`ReservedName` when reserved).
        """
        ...

    def pause(self, name: str) -> bool:
        """Fire nothing for a schedule until it is resumed.

        Args:
            name: The schedule's name.

        Returns:
            Whether there is such a schedule.

        Raises:
            InvalidName: *name* breaks the naming rule (`ReservedName` when reserved).
        """
        ...

    def resume(self, name: str) -> bool:
        """Go on at the first boundary of the old grid after now; nothing is made up for.

        Args:
            name: The schedule's name.

        Returns:
            Whether there is such a schedule.

        Raises:
            InvalidName: *name* breaks the naming rule (`ReservedName` when reserved).
        """
        ...

    def run_now(self, name: str) -> int:
        """Fire one extra job, moving no boundary.

        Args:
            name: The schedule's name; it may be paused.

        Returns:
            The job's id.

        Raises:
            InvalidName: *name* breaks the naming rule (`ReservedName` when reserved).
            UnknownSchedule: There is no such schedule (a `KeyError` as well).
            ScheduleQuarantined: Its row is damaged and cannot be fired.
        """
        ...

    def run_schedules(self, stop: StopToken) -> None:
        """Lead: fire what is due until *stop* is cancelled. Blocks.

        A database that is away does not end it: it goes on when the lease is still its own.

        Args:
            stop: Ends it within 100 ms, the lease given back.

        Raises:
            InvalidOption: *stop* is no stop token.
            LeadershipLost: Another runner holds the lease, or took it; or this one stepped down,
                since its ticks kept failing.
            StoreClosed: The store was closed.
            SchemaError: The schema does not fit.
        """
        ...
