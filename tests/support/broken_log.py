"""A log that cannot be written to."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from alkstore._typing import override


class BrokenLog(logging.Handler):
    """A handler that raises, such as a log shipper that is away in the same outage.

    Args:
        error: What it raises.

    Attributes:
        refused: The lines that were not written.
    """

    def __init__(self, error: BaseException) -> None:
        super().__init__()
        self._error = error
        self.refused: list[str] = []

    @override
    def emit(self, record: logging.LogRecord) -> None:
        """Raise."""
        self.refused.append(record.getMessage())
        raise self._error


@contextmanager
def broken_log(name: str, error: BaseException | None = None) -> Iterator[BrokenLog]:
    """Let no line of the logger *name*, and of those below it, be written."""
    broken = BrokenLog(error or ConnectionError("the log server is away"))
    logger = logging.getLogger(name)
    logger.addHandler(broken)
    try:
        yield broken
    finally:
        logger.removeHandler(broken)
