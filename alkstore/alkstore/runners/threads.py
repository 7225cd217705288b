"""The threads of a runner: started, looked at, and waited for."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection


class Threads:
    """Threads that are only ever added to: started here, or adopted from somebody else."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._threads: list[threading.Thread] = []
        self._adopted: list[threading.Thread] = []

    def start(self, thread: threading.Thread) -> None:
        """Start *thread* as one of them.

        Raises:
            RuntimeError: No thread can be started.
        """
        with self._lock:
            thread.start()
            self._threads.append(thread)

    def adopt(self, thread: threading.Thread) -> None:
        """Wait for *thread* as well, which runs already and may end at any time."""
        with self._lock:
            self._adopted.append(thread)

    def alive(self) -> list[threading.Thread]:
        """Return those that run, without waiting for one that is being started."""
        threads = (*tuple(self._threads), *tuple(self._adopted))
        return [thread for thread in threads if thread.is_alive()]

    def dead(self) -> list[threading.Thread]:
        """Return those of its own that have ended."""
        return [thread for thread in tuple(self._threads) if not thread.is_alive()]

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
            with self._lock:  # a thread that is being started counts
                alive = self.alive()
            if threading.current_thread() in alive:
                return False
            awaited = [thread for thread in alive if thread not in given_up()]
            if not awaited:
                return not alive
            left = None if deadline is None else deadline - time.monotonic()
            if left is not None and left <= 0:
                return False
            awaited[0].join(left)
