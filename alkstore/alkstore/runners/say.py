"""The one way to the log for runners: a log that fails costs nothing else."""

from __future__ import annotations

import logging
import threading

_EXITS = (GeneratorExit, KeyboardInterrupt, SystemExit)


def say(
    logger: logging.Logger,
    level: int,
    text: str,
    *values: object,
    error: BaseException | None = None,
) -> None:
    """Log, if that can be done.

    An application's log handler or filter may raise, such as a log shipper that is away in
    the same outage. Whoever has something to tell goes on all the same. An exit that is raised
    there is no other error in a thread, which it cannot end; in the main thread it may be
    a signal's, and goes its way.

    Args:
        logger: Where to.
        level: As `logging` numbers them.
        text: What to say.
        values: What goes into *text*.
        error: Shown with its traceback.
    """
    try:
        logger.log(level, text, *values, exc_info=error, stacklevel=2)
    except Exception:  # noqa: BLE001, S110 - there is nowhere to say it
        pass
    except _EXITS:
        if threading.current_thread() is threading.main_thread():
            raise
