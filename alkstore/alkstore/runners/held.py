"""One claim that a runner has in hand."""

from __future__ import annotations

from typing import Literal

from alkstore.runners.attempt import RELEASE, Outcome
from alkstore.traits import JobHandle

BEAT_SHARE = 0.25
"""A claim is extended after this share of its visibility timeout."""

LONGEST_BEAT = 30.0
"""The longest time between two heartbeats, in seconds: a lost claim is noticed by then."""


def beat_interval(visibility_timeout: float) -> float:
    """Return how long after its last extension a claim is extended again, in seconds.

    Less than a third of the visibility timeout, so that two beats may fail.
    """
    return min(visibility_timeout * BEAT_SHARE, LONGEST_BEAT)


class Held:
    """One claim in hand.

    Attributes:
        handle: The claim.
        admitted: When it came, as `time.monotonic` tells.
        since: When it was last known to be held.
        stage: ``"ready"`` (no handler yet), ``"running"``, or ``"ended"``.
        outcome: What is to become of it, once it ended.
        try_at: When to try to settle it (again).
        failures: How many tries to settle it failed.
        given_up: Whether it was taken from its handler, which still runs.
    """

    __slots__ = (
        "admitted",
        "failures",
        "given_up",
        "handle",
        "outcome",
        "since",
        "stage",
        "try_at",
    )

    def __init__(self, handle: JobHandle, now: float) -> None:
        self.handle = handle
        self.admitted = now
        self.since = now
        self.stage: Literal["ready", "running", "ended"] = "ready"
        self.outcome: Outcome = RELEASE
        self.try_at = 0.0
        self.failures = 0
        self.given_up = False
