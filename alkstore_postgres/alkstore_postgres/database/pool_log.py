"""What the driver's pool tells of an outage: once a minute, and not at every attempt.

Our own pool tries to connect about once a second while the database is away, so that the end
of an outage is noticed soon, and psycopg's logger has a warning for each attempt. Runners and the
listener tell once that something is wrong, and once that it is over; these lines would bury that.
"""

from __future__ import annotations

import logging
import time

from alkstore._typing import override
from alkstore_postgres.settings import POOL_NAME

_REMINDER = 60.0
_LOGGER = "psycopg.pool"
_FAILED_ATTEMPT = tuple(
    f"{what} {POOL_NAME!r}" for what in ("error connecting in", "reconnection attempt in pool")
)


class OwnPoolFilter(logging.Filter):
    """Lets one failed attempt a minute of the engine's own pools through.

    Everything else passes: what is of another pool, as the application's, and what is no
    failed attempt.
    """

    def __init__(self) -> None:
        super().__init__()
        self._last: float | None = None

    @override
    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether to log *record*."""
        if not _is_failed_attempt(record):
            return True
        now = time.monotonic()
        if self._last is not None and now - self._last < _REMINDER:
            return False
        self._last = now
        return True


_FILTER = OwnPoolFilter()


def calm() -> None:
    """Ration what the driver logs about the engine's own pools. May be called again."""
    logging.getLogger(_LOGGER).addFilter(_FILTER)


def _is_failed_attempt(record: logging.LogRecord) -> bool:
    # Releases of the pool differ in what is an argument of the message and what is written in it.
    return record.getMessage().startswith(_FAILED_ATTEMPT)
