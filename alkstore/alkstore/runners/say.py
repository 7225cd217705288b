"""The one way to the log for runners: a log that fails costs nothing else."""

from __future__ import annotations

import contextlib
import logging


def say(
    logger: logging.Logger,
    level: int,
    text: str,
    *values: object,
    error: BaseException | None = None,
) -> None:
    """Log, if that can be done.

    An application's log handler or filter may raise, such as a log shipper that is away in
    the same outage. Whoever has something to tell goes on all the same.

    Args:
        logger: Where to.
        level: As `logging` numbers them.
        text: What to say.
        values: What goes into *text*.
        error: Shown with its traceback.
    """
    with contextlib.suppress(Exception):
        logger.log(level, text, *values, exc_info=error, stacklevel=2)
