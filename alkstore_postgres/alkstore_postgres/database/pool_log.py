"""What the driver's pool tells of an outage and of its end.

Of an outage: once a minute, and not at every attempt.

Our own pool tries to connect about once a second while the database is away, so that the end
of an outage is noticed soon, and psycopg's logger has a warning for each attempt. Runners and the
listener tell once that something is wrong, and once that it is over; these lines would bury that.

Of its end: nothing when the interpreter ends. A thread of the pool that waits for a silent server
then is not waited for, and ends with the interpreter.
"""

from __future__ import annotations

import logging

from alkstore._typing import override
from alkstore_postgres.database.ending import has_begun
from alkstore_postgres.database.ration import Ration
from alkstore_postgres.settings import POOL_NAME

_LOGGER = "psycopg.pool"
_FAILED_ATTEMPT = tuple(
    f"{what} {POOL_NAME!r}" for what in ("error connecting in", "reconnection attempt in pool")
)


_LEFT_THREAD = f"couldn't stop thread '{POOL_NAME}-"


class OwnPoolFilter(logging.Filter):
    """Lets one failed attempt a minute of the engine's own pools through.

    Everything else passes: what is of another pool, as the application's, and what is no
    failed attempt, with the exception of a thread that is left at the interpreter's end.
    """

    def __init__(self) -> None:
        super().__init__()
        self._ration = Ration()

    @override
    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether to log *record*."""
        # Releases of the pool differ in what is an argument of the message and what is written
        # in it.
        message = record.getMessage()
        if message.startswith(_LEFT_THREAD):
            return not has_begun()
        if not message.startswith(_FAILED_ATTEMPT):
            return True
        return self._ration.take()


_FILTER = OwnPoolFilter()


def calm() -> None:
    """Ration what the driver logs about the engine's own pools. May be called again."""
    logging.getLogger(_LOGGER).addFilter(_FILTER)
