"""Whether a listener is behind is looked for soon, and where it is not, more and more rarely."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import pytest

from alkstore_postgres.wakes.lookout import LONGEST_HEAVY, LOOK_EVERY, MANY, Lookout

HEARTBEAT = 15.0


class Stream:
    """A stream of wakes, judged as it goes.

    Args:
        every: How many seconds lie between two readings.
        wakes: How many wakes each reading brings.
        pauses: Whether there is nothing to read in between.
        returns: Whether a probe has come back by the next reading.
    """

    def __init__(
        self, every: float, wakes: int, *, pauses: bool, returns: Callable[[], bool] = lambda: True
    ) -> None:
        self._every = every
        self._wakes = wakes
        self._pauses = pauses
        self._returns = returns
        self._lookout = Lookout(0, HEARTBEAT)
        self._now = 1000.0
        self._heard = 0
        self._proven = True

    def go_on(self, seconds: float) -> dict[str, list[float]]:
        """Return when there were which verdicts, in seconds from now."""
        verdicts: dict[str, list[float]] = {"go on": [], "probe": [], "behind": []}
        began = self._now
        while self._now <= began + seconds:
            self._heard += self._wakes
            self._proven = self._proven or self._returns()
            verdict = self._lookout.judge(
                self._now, self._heard, proven=self._proven, paused=self._pauses
            )
            verdicts[verdict].append(self._now - began)
            if verdict == "probe":
                self._proven = False
            self._now += self._every
        return verdicts


KINDS = {
    "many wakes": (0.1, MANY, True),
    "no pause": (0.1, 1, False),
    "few wakes": (0.2, 1, True),
    "hardly any": (0.8, 1, True),
}


@pytest.mark.parametrize("kind", KINDS)
def test_a_stream_that_is_behind_from_its_begin_is_found_at_the_third_look(kind: str) -> None:
    every, wakes, pauses = KINDS[kind]
    found = Stream(every, wakes, pauses=pauses, returns=lambda: False).go_on(10)
    assert len(found["probe"]) == 1
    look = LOOK_EVERY + every
    assert found["behind"][0] <= 2 * look
    assert all(after - before <= look for before, after in pairwise(found["behind"]))


@pytest.mark.parametrize("kind", KINDS)
def test_probes_that_come_straight_back_become_rare(kind: str) -> None:
    every, wakes, pauses = KINDS[kind]
    probes = Stream(every, wakes, pauses=pauses).go_on(600)["probe"]
    gaps = [after - before for before, after in pairwise(probes)]
    longest = LONGEST_HEAVY if kind in {"many wakes", "no pause"} else HEARTBEAT
    assert all(gap >= longest - 0.01 for gap in gaps[6:])
    assert all(gap <= longest + LOOK_EVERY + every for gap in gaps)


def test_one_that_falls_behind_later_is_found_by_the_next_probe() -> None:
    returns = [True]
    stream = Stream(0.1, MANY, pauses=True, returns=lambda: returns[0])
    assert not stream.go_on(60)["behind"]
    returns[0] = False
    assert stream.go_on(60)["behind"][0] <= LONGEST_HEAVY + 3 * LOOK_EVERY


def test_after_it_has_caught_up_it_is_looked_at_soon_again() -> None:
    returns = [True]
    stream = Stream(0.1, MANY, pauses=True, returns=lambda: returns[0])
    stream.go_on(60)
    returns[0] = False
    stream.go_on(60)
    returns[0] = True
    probes = stream.go_on(3)["probe"]
    assert probes[0] <= 2 * LOOK_EVERY


def test_a_wake_that_comes_alone_costs_no_probe() -> None:
    lookout = Lookout(7, HEARTBEAT)
    assert lookout.judge(1000.0, 8, proven=True, paused=True) == "go on"


def test_what_is_no_wake_costs_no_probe() -> None:
    """The answer to a probe for one, or there would be a next one for ever."""
    lookout = Lookout(7, HEARTBEAT)
    verdicts = [
        lookout.judge(1000.0 + number, 7, proven=True, paused=True) for number in range(100)
    ]
    assert set(verdicts) == {"go on"}
