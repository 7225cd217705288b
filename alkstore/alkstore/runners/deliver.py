"""One delivery of an outbox message, with its three dispositions."""

from __future__ import annotations

import logging
import time

from alkstore.errors import AlkstoreError, DatabaseError
from alkstore.runners.attempt import Outcome, attempt, settle
from alkstore.runners.pause import pause
from alkstore.runners.say import say
from alkstore.stop_token import StopToken
from alkstore.traits import Delivery, JobHandle

EXITS = (KeyboardInterrupt, SystemExit)
"""What ends the program: the message is released, and the exit goes on its way."""

_PATIENCE = 10.0
"""How long `deliver` tries to write what became of a message, in seconds."""

_logger = logging.getLogger(__name__)


def deliver(delivery: Delivery, handle: JobHandle, stop: StopToken | None = None) -> None:
    """Call *delivery* with a claimed message and write what became of it.

    When it returns, the message is acknowledged, unless it settled it itself; when it
    raises, the message is retried on the curve with the error's text. `KeyboardInterrupt`
    and `SystemExit` release the message and propagate. A database that is away for a
    moment is tried again for 10 s: the receiver has the message already, and it should
    not get it twice.

    Args:
        delivery: The application's code.
        handle: The claimed message.
        stop: Ends the tries.

    Raises:
        DatabaseError: What became of the message could not be written. Its claim lapses,
            and it is delivered again.
    """
    outcome = attempt(delivery, handle, exits=EXITS)
    if isinstance(outcome.raised, EXITS):
        try:
            settle(handle, outcome)
        except AlkstoreError:
            say(
                _logger,
                logging.WARNING,
                "message %d was not released; its claim will lapse",
                handle.id,
            )
        raise outcome.raised
    try:
        _settle_patiently(handle, outcome, stop or StopToken())
    finally:
        # Afterwards: whatever interrupts this, the message is settled.
        if outcome.raised is not None:
            log_failure(handle, outcome.raised)


def log_failure(handle: JobHandle, raised: BaseException) -> None:
    """Log that the delivery behind *handle* raised."""
    say(
        _logger,
        logging.WARNING,
        "delivery of message %d failed (attempt %d of %d)",
        handle.id,
        handle.attempt,
        handle.max_attempts,
        error=raised,
    )


def _settle_patiently(handle: JobHandle, outcome: Outcome, stop: StopToken) -> None:
    deadline = time.monotonic() + _PATIENCE
    failures = 0
    while True:
        try:
            settle(handle, outcome)
        except DatabaseError as error:
            failures += 1
            rest = pause(failures)
            if not error.retryable or time.monotonic() + rest > deadline or stop.wait(rest):
                raise
        else:
            return
