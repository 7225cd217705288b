"""The sender: merges the wakes of a stream of enqueues in time.

A transaction that notifies takes a lock across the whole server while it commits, so a
stream of them would line up. Few of these wakes matter: a busy worker looks at the table
again anyway, and an idle one is woken by the first.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from typing import Final

from alkstore.errors import AlkstoreError, StoreClosed
from alkstore.stop_token import Parker
from alkstore_postgres.database.database import Database
from alkstore_postgres.database.seam import Joined
from alkstore_postgres.database.statements import Statements
from alkstore_postgres.wakes.channel import wake_channel
from alkstore_postgres.wakes.hub import WakeHub

WINDOW: Final = 0.2
"""How long a wake may be held back to be merged with others, in seconds."""

BURST: Final = 3.0
"""How many wakes a name may send in a row before they are merged."""

_IDLE_LIMIT = 10.0
_CLOSE_LIMIT = 1.0
_MANY_NAMES = 4096

logger = logging.getLogger(__name__)


class WakeSender:
    """Decides which enqueue carries its wake, and sends the others merged.

    Each name may send `BURST` wakes at once and one more for every `WINDOW` that passes;
    what comes on top is sent by a thread, once for each window. The thread starts when it
    is needed and ends when it was idle for a while.

    Args:
        database: The way to the database.
        schema: The schema's name, unquoted.
        hub: The store's hub: waiters of this process are woken without a round trip.
    """

    def __init__(self, database: Database, schema: str, hub: WakeHub | None = None) -> None:
        self._database = database
        self._hub = hub
        self._sql = Statements(__package__, "wakes.sql", schema)
        self.channel = wake_channel(schema)
        self._closed = False
        self._reset()

    def _reset(self) -> None:
        self._pid = os.getpid()
        self._lock = threading.RLock()
        self._allowances: dict[str, tuple[float, float]] = {}
        self._pending: dict[str, bool] = {}
        self._thread: threading.Thread | None = None
        self._parker = Parker()
        self._failing = False

    def inline(self, name: str) -> bool:
        """Return whether the statement about to run shall carry the wake of *name* itself.

        When not, call `merged` after its commit. Never waits: who cannot look at the
        books at once is one of many, and merging is right.
        """
        self._follow_fork()
        if not self._lock.acquire(blocking=False):
            return False
        try:
            return self._spend(name)
        finally:
            self._lock.release()

    def merged(self, name: str) -> None:
        """Have a wake of *name* sent within `WINDOW`, together with others.

        At once, when nothing was sent for the name lately.
        Best effort: it never raises, and a failure is logged once for an outage.
        """
        self._follow_fork()
        if self._hub is not None:
            self._hub.wake_here(name)
        if self._closed or name in self._pending:
            return
        self._pending[name] = at_once = self.inline(name)
        self._ensure_thread()
        if at_once:
            self._parker.unpark()

    def send_now(self, name: str) -> None:
        """Send a wake of *name* and nothing else; raises `DatabaseError`."""
        self._database.execute(self._sql["notify"], self._wake(name))

    def send_in(self, session: Joined, name: str) -> None:
        """Send a wake of *name* when the transaction of *session* commits."""
        session.execute(self._sql["notify"], self._wake(name))

    def close(self) -> None:
        """Send what is pending, best effort, and end the thread."""
        self._follow_fork()
        self._closed = True
        with self._lock:
            thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            self._parker.unpark()
            thread.join(_CLOSE_LIMIT)

    def after_fork(self) -> None:
        """Forget the thread and what was pending: they are the parent's."""
        self._reset()

    def _wake(self, name: str) -> dict[str, str]:
        return {"channel": self.channel, "name": name}

    def _follow_fork(self) -> None:
        if self._pid != os.getpid():
            self.after_fork()

    def _spend(self, name: str) -> bool:
        """Take one wake off the allowance of *name*, if there is one."""
        now = time.monotonic()
        left, stamp = self._allowances.get(name, (BURST, now))
        left = min(BURST, left + (now - stamp) / WINDOW)
        if left < 1:
            return False
        if len(self._allowances) >= _MANY_NAMES:
            self._forget_full(now)
        self._allowances[name] = (left - 1, now)
        return True

    def _forget_full(self, now: float) -> None:
        full = BURST * WINDOW
        self._allowances = {
            name: (left, stamp)
            for name, (left, stamp) in self._allowances.items()
            if now - stamp < full
        }

    def _ensure_thread(self) -> None:
        with self._lock:
            if self._thread is not None and self._thread.is_alive():
                return
            self._parker = Parker()
            self._thread = threading.Thread(
                target=self._run, args=(self._parker,), name="alkstore-wakes", daemon=True
            )
            try:
                self._thread.start()
            except RuntimeError:  # no more threads, or the interpreter is ending
                self._thread = None
                self._pending.clear()

    def _run(self, parker: Parker) -> None:
        idle_since = time.monotonic()
        while True:
            # Also the merging itself: whatever comes up in this time goes out together.
            parker.park(WINDOW)
            if self._pending:
                self._send()
                idle_since = time.monotonic()
            if self._closed or time.monotonic() - idle_since > _IDLE_LIMIT:
                with self._lock:
                    if not self._pending:
                        self._thread = None
                        return

    def _send(self) -> None:
        names = list(self._pending)
        with self._lock:
            for name in names:
                if not self._pending.pop(name):
                    self._spend(name)
        params = {"channel": self.channel, "names": names}
        try:
            self._database.execute(self._sql["notify_many"], params)
        except StoreClosed:
            return
        except BaseException as error:
            if not self._failing:
                expected = isinstance(error, AlkstoreError)
                logger.warning(
                    "wakes cannot be sent, waiters poll: %s",
                    error,
                    exc_info=None if expected else error,
                )
            self._failing = True
        else:
            self._failing = False
