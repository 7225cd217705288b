"""An errand: what one thread of a runner has another one do."""

from __future__ import annotations

from collections.abc import Callable

from alkstore.stop_token import Parker


class Errand:
    """Work that another thread does, for one that waits for it.

    Args:
        work: What is to be done.
    """

    def __init__(self, work: Callable[[], None]) -> None:
        self._work = work
        self._done = Parker()
        self._raised: list[BaseException] = []

    def run(self) -> None:
        """Do the work; whatever it raises is for the one that waits."""
        try:
            self._work()
        except BaseException as error:  # noqa: BLE001 - raised again where it belongs
            self._raised.append(error)
        finally:
            self._done.unpark()

    def wait(self) -> None:
        """Wait until the work is done; raises what it has raised."""
        self._done.park()
        if self._raised:
            raise self._raised.pop()
