"""The retry curve."""

from __future__ import annotations

MAX_BACKOFF = 6 * 60 * 60.0
"""The longest gap of the curve, in seconds (6 hours)."""

# 2 ** 70 microseconds is longer than any cap: past this exponent only the cap is left.
_LARGEST_EXPONENT = 70


def retry_delay(base_backoff: float, attempts: int) -> float:
    """Return how long a job waits after its *attempts*-th attempt failed.

    ``base_backoff * 2 ** (attempts - 1)``, at most `MAX_BACKOFF` (section 4 of the
    contract). It never overflows and never decreases as *attempts* grows.

    Args:
        base_backoff: The first gap, in seconds, as stamped on the job.
        attempts: How many attempts the job has had, the failed one included.

    Returns:
        The gap in seconds.
    """
    exponent = min(max(attempts - 1, 0), _LARGEST_EXPONENT)
    return min(base_backoff * 2.0**exponent, MAX_BACKOFF)
