"""How long to rest after a failure."""

from __future__ import annotations

import random

from alkstore.backoff import stored_delay

FIRST_PAUSE = 0.1
"""The longest pause after a first failure, in seconds."""

LONGEST_PAUSE = 2.0
"""The longest pause of all, in seconds: what recovered is noticed soon after."""


def pause(failures: int) -> float:
    """Return how long to rest after *failures* failures in a row, in seconds.

    The retry curve from 0.1 s, capped at 2 s; at random between half of that and all of
    it, so that the threads of many processes do not come back in step.
    """
    longest = min(stored_delay(FIRST_PAUSE, failures), LONGEST_PAUSE)
    return random.uniform(longest / 2, longest)  # noqa: S311 - no secret
