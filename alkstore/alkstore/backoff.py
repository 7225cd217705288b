"""The retry curve."""

from __future__ import annotations

from alkstore.arguments import Seconds, positive_seconds, shown
from alkstore.errors import InvalidOption

MAX_BACKOFF = 6 * 60 * 60.0
"""The longest gap of the curve, in seconds (6 hours)."""

# 2 ** 70 microseconds is longer than any cap: past this exponent only the cap is left.
_LARGEST_EXPONENT = 70


def retry_delay(base_backoff: Seconds, attempts: int) -> float:
    """Return how long a job waits after its *attempts*-th attempt failed.

    ``base_backoff * 2 ** (attempts - 1)``, at most `MAX_BACKOFF` (section 4 of the
    contract). It never overflows and never decreases as *attempts* grows.

    Args:
        base_backoff: The first gap, in seconds or as a `timedelta`, as the option of a queue
            takes it.
        attempts: How many attempts the job has had, the failed one included.

    Returns:
        The gap in seconds.

    Raises:
        InvalidOption: *base_backoff* is no duration of at least a millisecond, or *attempts*
            no ``int`` of at least 1.
    """
    base = positive_seconds(base_backoff, "base_backoff")
    return stored_delay(base, _check_attempts(attempts))


def stored_delay(base_backoff: float, attempts: int) -> float:
    """Return what `retry_delay` does, for a stored job, whatever was written there by hand.

    Args:
        base_backoff: The first gap, in seconds, as stamped on the job.
        attempts: How many attempts the job has had; less than 1 counts as 1.

    Returns:
        The gap in seconds.
    """
    exponent = min(max(attempts - 1, 0), _LARGEST_EXPONENT)
    return min(base_backoff * 2.0**exponent, MAX_BACKOFF)


def _check_attempts(attempts: object) -> int:
    if isinstance(attempts, bool) or not isinstance(attempts, int) or attempts < 1:
        msg = f"attempts must be an int of at least 1, not {shown(attempts)}"
        raise InvalidOption(msg)
    return attempts
