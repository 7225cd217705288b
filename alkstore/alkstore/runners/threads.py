"""The threads of a runner: started, looked at, and waited for."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection
from typing import Final

from alkstore.stop_token import SLICE

_NAP: Final = 0.001
"""How long to wait for a thread that is just being started, in seconds."""


class Threads:
    """Threads that were started here, or adopted from somebody else.

    There is no lock here, and each operation on the lists is one of its own: a signal handler may
    wait for the threads, in a thread that it interrupted while that was starting one.
    """

    def __init__(self) -> None:
        self._threads: list[threading.Thread] = []
        self._adopted: list[threading.Thread] = []
        self._starting: dict[threading.Thread, int] = {}

    def start(self, thread: threading.Thread) -> None:
        """Start *thread* as one of them.

        Raises:
            RuntimeError: No thread can be started.
        """
        self._starting[thread] = threading.get_ident()
        # Before it runs: whatever interrupts this, nobody runs whom nobody waits for.
        self._threads.append(thread)
        try:
            thread.start()
        except RuntimeError:
            if thread.ident is None:
                self.forget(thread)
            raise
        finally:
            del self._starting[thread]

    def forget(self, thread: threading.Thread) -> None:
        """Leave out *thread*, which has ended, and which nobody misses."""
        if thread in self._threads:
            self._threads.remove(thread)

    def adopt(self, thread: threading.Thread) -> None:
        """Wait for *thread* as well, which runs already and may end at any time."""
        self._adopted.append(thread)

    def alive(self) -> list[threading.Thread]:
        """Return those that run, without waiting for one that is being started."""
        threads = (*tuple(self._threads), *tuple(self._adopted))
        return [thread for thread in threads if thread.is_alive()]

    def dead(self) -> list[threading.Thread]:
        """Return those of its own that have ended."""
        threads = tuple(self._threads)
        starting = self._starting.copy()
        return [
            thread
            for thread in threads
            if thread.ident is not None and thread not in starting and not thread.is_alive()
        ]

    def wait(
        self, limit: float | None, given_up: Callable[[], Collection[threading.Thread]]
    ) -> bool:
        """Wait for all of them but those *given_up*.

        Args:
            limit: How long at most, in seconds; ``None``: no limit.
            given_up: Returns the ones that nobody waits for any more.

        Returns:
            Whether all have ended, the ones given up included. ``False`` at once when one of
            them asks.
        """
        deadline = None if limit is None else time.monotonic() + limit
        while True:
            starting = self._are_starting()  # asked before: whoever has started since is alive
            alive = self.alive()
            if threading.current_thread() in alive:
                return False
            awaited = [thread for thread in alive if thread not in given_up()]
            if not awaited and not starting:
                return not alive
            left = None if deadline is None else deadline - time.monotonic()
            if left is not None and left <= 0:
                return False
            # In slices: a signal must not wait for the end of a thread.
            nap = SLICE if left is None else min(left, SLICE)
            if awaited:
                awaited[0].join(nap)
            else:
                time.sleep(min(nap, _NAP))

    def _are_starting(self) -> bool:
        """Return whether another thread is starting one; the caller's own waits for the caller."""
        return any(starter != threading.get_ident() for starter in self._starting.copy().values())
