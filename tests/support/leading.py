"""A leader loop in a thread of the test's, with what became of it."""

from __future__ import annotations

import threading
import time
from datetime import timedelta
from types import TracebackType
from typing import Any

from alkstore._typing import Self
from alkstore.stop_token import StopToken
from alkstore_postgres.scheduler.leader import LeaderLoop
from alkstore_postgres.store import PostgresStore
from tests.support.waiting import wait_until

QUICK = 0.1
"""Within how many seconds a stop is obeyed."""
SLACK = 0.05
"""What a busy test machine may add."""


class Leading:
    """Runs `LeaderLoop.run` until the test ends it.

    Args:
        store: Whose parts are used.
        ttl: The lease's time to live, in seconds.
    """

    def __init__(self, store: PostgresStore, ttl: float = 10.0) -> None:
        parts = store._parts
        self.loop = LeaderLoop(parts.database, parts.hub, ttl=ttl)
        self.stop = StopToken()
        self.turns = 0
        self.error: BaseException | None = None
        self.failures: list[BaseException] = []
        self.left_behind: list[threading.Thread] = []
        self._thread = threading.Thread(target=self._run, name="leading", daemon=True)

    def _run(self) -> None:
        try:
            self.loop.run(self.stop, self)
        except BaseException as error:  # noqa: BLE001 - the test looks at it
            self.error = error

    def led(self, until: float) -> None:  # noqa: ARG002 - of the trait
        """Count a good turn; see `LeaderWatch`."""
        self.turns += 1

    def failed(self, error: BaseException) -> None:
        """Keep what failed; see `LeaderWatch`."""
        self.failures.append(error)

    def left(self, thread: threading.Thread) -> None:
        """Keep the thread of a call that outlasts the loop's caller; see `LeaderWatch`."""
        self.left_behind.append(thread)

    @property
    def running(self) -> bool:
        """Whether the loop goes on."""
        return self._thread.is_alive()

    def start(self) -> Self:
        """Start the loop."""
        self._thread.start()
        return self

    def lead(self) -> Self:
        """Start the loop and wait for its first good turn."""
        self.start()
        wait_until(lambda: self.turns or not self.running)
        assert self.error is None
        return self

    def end(self) -> float:
        """Stop the loop; return how many seconds that took."""
        began = time.monotonic()
        self.stop.cancel()
        self._thread.join(30)
        assert not self.running
        return time.monotonic() - began

    def outcome(self, timeout: float = 30.0) -> BaseException | None:
        """Wait for the loop to end by itself; return what it raised."""
        self._thread.join(timeout)
        assert not self.running
        return self.error

    def __enter__(self) -> Self:
        """Wait for the first good turn."""
        return self.lead()

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Stop the loop."""
        self.end()


def owner_of(table: Any) -> str | None:
    """Return who holds the scheduler's lease."""
    row = table.run("SELECT owner FROM {locks} WHERE name = '__alkstore_scheduler'").fetchone()
    return None if row is None else row[0]


def late(store: PostgresStore, name: str) -> list[timedelta]:
    """Return how late each fire of *name* was stored, on the store clock."""
    jobs = store.queue(name).claim("w", limit=1_000)
    return [job.enqueued_at - job.scheduled_for for job in jobs if job.scheduled_for is not None]
