"""An errand: what one thread of a runner has another one do."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Final

from alkstore.stop_token import Parker

PATIENCE: Final = 0.1
"""An errand that nobody has begun after so many seconds is done by whoever sent it."""


class Errand:
    """Work that another thread does, for one that waits for it.

    That thread may be gone, or rest after a failure, or something may strike it between taking the
    errand and beginning it (an application's time limit for a handler that has ended just before,
    say). So whoever waits does not rely on it.

    Args:
        work: What is to be done.
    """

    def __init__(self, work: Callable[[], None]) -> None:
        self._work = deque((work,))  # whoever takes it out of here does it
        self._done = Parker()
        self._raised: list[BaseException] = []

    def run(self) -> None:
        """Do the work, unless that was done; whatever it raises is for the one that waits."""
        try:
            if (work := self._take()) is not None:
                work()
        except BaseException as error:  # noqa: BLE001 - raised again where it belongs
            self._raised.append(error)
        finally:
            self._done.unpark()

    def give_up(self) -> None:
        """Note that `run` has come to an end somewhere, or to nothing."""
        self._done.unpark()

    def wait(self) -> None:
        """Wait until the work is done, or do it; raises what it raises."""
        begun = False
        while not self._done.park(None if begun else PATIENCE) and not begun:
            if (work := self._take()) is not None:
                work()
                return
            begun = True
        if (work := self._take()) is not None:  # given up before it was begun
            work()
        elif self._raised:
            raise self._raised.pop()

    def _take(self) -> Callable[[], None] | None:
        try:
            return self._work.pop()
        except IndexError:
            return None
