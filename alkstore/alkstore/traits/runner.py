"""Runners: supervised background threads."""

from __future__ import annotations

from typing import Protocol

from alkstore.arguments import Seconds
from alkstore.values import RunnerHealth, RunnerState


class Runner(Protocol):
    """A supervised daemon thread (or several) that an application started.

    It never dies silently: an unexpected exception is logged with its traceback, kept as
    `last_error`, and the work starts again with backoff.
    """

    @property
    def name(self) -> str:
        """What it runs: ``scheduler``, ``worker <queue>`` or ``outbox <name>``."""
        ...

    @property
    def state(self) -> RunnerState:
        """What it is doing.

        ``starting`` until the first good turn, ``leading`` or ``standby`` (a scheduler),
        ``working`` (the others), ``backing-off`` after an error until the next good turn
        (and for a leader whose lease was not renewed in time),
        ``stopped`` when it has ended, or has given up what a handler still works on. A
        runner that is asked to stop keeps its state until then.
        """
        ...

    @property
    def last_error(self) -> BaseException | None:
        """The last unexpected error, or ``None``."""
        ...

    def health(self) -> RunnerHealth:
        """Return whether it does what it should.

        A scheduler that leads has the database asked for schedules that are late or
        quarantined, in the background, and waits a second for the answer at the most;
        nothing else makes a round trip. What fails makes a runner unhealthy when it lasts
        for more than 30 s, see `RunnerHealth`; `state` tells at once.

        Returns:
            The state with the reason why it is not healthy; see `RunnerHealth`.
        """
        ...

    def stop(self, timeout: Seconds | None = None) -> bool:
        """Ask it to end, and wait for that.

        It claims nothing more at once. What it holds may finish until the time is up and
        is released then, the attempt given back. May be called again, with less time too.

        Args:
            timeout: Seconds or `timedelta` that handlers may still take (``None``: 30 s); it
                returns a second later at the latest.

        Returns:
            Whether everything ended in time. ``False`` at once from one of its own threads,
            a handler's for one, for which it cannot wait.

        Raises:
            InvalidOption: *timeout* is not a duration.
        """
        ...

    def join(self, timeout: Seconds | None = None) -> bool:
        """Wait until all its threads have ended, without asking it to.

        Args:
            timeout: Seconds or `timedelta` to wait at most; ``None``: no limit.

        Returns:
            Whether they have.

        Raises:
            InvalidOption: *timeout* is not a duration.
        """
        ...
