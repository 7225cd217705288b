"""The lookout: finds that a listener has fallen behind a stream of wakes.

The server keeps what we are too slow for, or the way to it, and a wake waits its turn behind that:
without end when the stream does not pause. A probe in the stream shows how long that takes. But
each probe is a notification, for which the server rouses every listener of its database, so
where they come straight back they become rare.
"""

from __future__ import annotations

from typing import Final, Literal

Verdict = Literal["go on", "probe", "behind"]

LOOK_EVERY: Final = 0.5
"""A stream is looked at so many seconds after it has begun, and again and again."""

MANY: Final = 100
"""So many wakes from one look to the next make a heavy stream ..."""

LONGEST_HEAVY: Final = 4.0
"""... in which the longest time from one probe to the next is so many seconds. In a light one it
is the heartbeat."""


class Lookout:
    """Judges one stream of wakes, from the first one after a silence to the next silence.

    Nobody can tell a slow way from an application that has little to say, so a probe is sent
    in a light stream as well. A heavy stream is one of many wakes, or one in which reading never
    pauses: whatever was read, there was more.

    It reads no clock.

    Args:
        heard: How many wakes have been heard so far.
        longest: The longest time from one probe to the next, in seconds.
    """

    def __init__(self, heard: int, longest: float) -> None:
        self._heard = heard
        self._longest = max(longest, LOOK_EVERY)
        self._gap = LOOK_EVERY
        self._looked: float | None = None
        self._probed: float | None = None
        self._is_out = False
        self._paused = False

    def judge(self, now: float, heard: int, *, proven: bool, paused: bool) -> Verdict:
        """Return what is to be done, after something was read.

        Args:
            now: The time, in seconds, on any clock that does not go back.
            heard: How many wakes have been heard so far.
            proven: Whether the last probe has come back.
            paused: Whether there was nothing to read for a moment before this.
        """
        self._paused = self._paused or paused
        new = heard - self._heard
        if self._looked is None and new < MANY:
            self._looked = now
            return "go on"
        if self._looked is not None and now - self._looked < LOOK_EVERY:
            return "go on"
        heavy = new >= MANY or not self._paused
        self._looked, self._heard, self._paused = now, heard, False
        if not proven:
            self._gap = LOOK_EVERY
            self._is_out = False
            return "behind"
        if self._is_out:  # it has come straight back
            self._is_out = False
            self._gap = min(self._gap * 2, self._longest)
        gap = min(self._gap, LONGEST_HEAVY) if heavy else self._gap
        if not new or (self._probed is not None and now - self._probed < gap):
            return "go on"
        self._probed = now
        self._is_out = True
        return "probe"
