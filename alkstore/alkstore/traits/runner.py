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
        """What it runs, as in its threads' names."""
        ...

    @property
    def state(self) -> RunnerState:
        """What it is doing."""
        ...

    @property
    def last_error(self) -> BaseException | None:
        """The last unexpected error, or ``None``."""
        ...

    def health(self) -> RunnerHealth:
        """Return whether it does what it should."""
        ...

    def stop(self, timeout: Seconds | None = None) -> bool:
        """Ask it to end, and wait for that.

        It claims nothing more at once. What it holds may finish until the time is up and
        is released then.

        Args:
            timeout: Seconds or `timedelta` (``None``: 30 s).

        Returns:
            Whether everything ended in time.
        """
        ...

    def join(self, timeout: Seconds | None = None) -> bool:
        """Wait until it has ended, without asking it to; return whether it has."""
        ...
