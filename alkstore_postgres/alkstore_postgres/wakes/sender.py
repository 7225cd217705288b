"""The sender: merges the wakes of a stream of enqueues.

A transaction that notifies takes a lock across the whole server while it commits, so a
stream of them would line up. Few of these wakes matter: a busy worker looks at the table
again anyway. So most enqueues leave their wake to a thread, which first looks whether anybody
waits for it, and sends it in a transaction that writes nothing.
"""

from __future__ import annotations

import contextlib
import logging
import os
import threading
import time
from typing import Final

from alkstore.errors import AlkstoreError, StoreClosed
from alkstore.runners.say import say
from alkstore.stop_token import Parker
from alkstore_postgres.database.database import Database
from alkstore_postgres.database.seam import Joined
from alkstore_postgres.database.statements import Statements
from alkstore_postgres.wakes.channel import wake_channel
from alkstore_postgres.wakes.hub import WakeHub
from alkstore_postgres.wakes.merging import Merging

CARRIES: Final = 0
"""The statement that begins carries its wake; no job has this id."""

_IDLE_LIMIT = 10.0
_CLOSE_LIMIT = 1.0
_MANY_NAMES = 4096

logger = logging.getLogger(__name__)


class WakeSender:
    """Decides which enqueue carries its wake, and sends the others merged.

    An enqueue that comes alone carries its wake. In a stream each name may carry `BURST` wakes
    in a row and one more for every `WINDOW` that passes; one that follows the last a little later
    asks, in its own statement, whether a worker may be idle. What comes on top is sent by a thread:
    at once when a worker is idle, else once for each window (`Merging`). The thread starts when
    it is needed and ends when it was idle for a while.

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
        self._books: dict[str, Merging] = {}
        self._owed: dict[str, Merging] = {}
        self._thread: threading.Thread | None = None
        self._starting = False
        self._parker = Parker()
        self._failing = False

    def inline(self, name: str) -> bool:
        """Return whether the statement about to run shall carry the wake of *name* itself.

        When so, call `carried` after its commit, else `merged`. Takes no lock.
        """
        return self.begin(name, due=False) is CARRIES

    def begin(self, name: str, *, due: bool) -> int | None:
        """Return what the statement about to run, which stores a job, does for the wake of *name*.

        After its commit call `carried` if it has carried the wake, else `merged`. Takes no lock.

        Args:
            name: The queue's name; not checked.
            due: Whether the job can be claimed at once.

        Returns:
            `CARRIES`: it carries the wake. The id of a job: it looks for that one, and carries
            the wake when it is gone. ``None``: neither.
        """
        now = time.monotonic()
        book = self._books.get(name) or self._book(name, now)
        if book.spend(now):
            return CARRIES
        return book.ask(now) if due else None

    def carried(self, name: str, job_id: int | None = None) -> None:
        """Note that an enqueue has carried the wake of *name*.

        Args:
            name: The mechanism's name; not checked.
            job_id: The job that was stored, when it can be claimed already.
        """
        if (book := self._books.get(name)) is not None:
            book.carried(time.monotonic(), job_id)

    def merged(self, name: str, job_id: int | None = None) -> None:
        """Have a wake of *name* sent if anybody may be idle, together with others.

        Best effort: it never raises, and a failure is logged once for an outage.

        Args:
            name: The mechanism's name; not checked.
            job_id: The job that was stored, and committed, when it can be claimed already;
                ``None``: something else happened that waiters have to know.
        """
        if self._pid != os.getpid():
            self.after_fork()
        if self._hub is not None and self._hub.waiters.somebody:
            self._hub.wake_here(name)
        if self._closed:
            return
        book = self._books.get(name) or self._book(name, time.monotonic())
        hurry = book.add(job_id)
        # Of many names one that nobody uses is forgotten, perhaps at this moment.
        if self._owed.get(name) is not book:
            self._owed[name] = book
            self._ensure_thread()
            hurry = True
        if hurry:
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
            with contextlib.suppress(RuntimeError):  # a signal handler, amid its start
                thread.join(_CLOSE_LIMIT)

    def after_fork(self) -> None:
        """Forget the thread and what was pending: they are the parent's."""
        self._reset()

    def _wake(self, name: str) -> dict[str, str]:
        return {"channel": self.channel, "name": name}

    def _follow_fork(self) -> None:
        if self._pid != os.getpid():
            self.after_fork()

    def _book(self, name: str, now: float) -> Merging:
        """Return the books of *name*, made when they are new."""
        self._follow_fork()
        book = self._books.get(name)
        if book is None:
            with self._lock:
                if len(self._books) >= _MANY_NAMES:
                    self._books = {
                        one: kept for one, kept in self._books.items() if not kept.is_quiet(now)
                    }
                book = self._books.setdefault(name, Merging(now))
        return book

    def _ensure_thread(self) -> None:
        with self._lock:
            # A signal handler may come here while the interrupted code starts the thread.
            if self._starting or (self._thread is not None and self._thread.is_alive()):
                return
            self._starting = True
            try:
                self._parker = Parker()
                self._thread = threading.Thread(
                    target=self._run, args=(self._parker,), name="alkstore-wakes", daemon=True
                )
                self._thread.start()
            except RuntimeError:  # no more threads, or the interpreter is ending
                self._give_up()
            except BaseException:  # Ctrl-C: it may run, and is told by this to end
                self._give_up()
                raise
            finally:
                self._starting = False

    def _give_up(self) -> None:
        """Have the next one who owes something start another thread."""
        with self._lock:
            self._thread = None
            self._owed.clear()

    def _is_wanted(self) -> bool:
        return self._thread is threading.current_thread()

    def _run(self, parker: Parker) -> None:
        try:
            self._work(parker)
        except BaseException:
            if self._is_wanted():
                self._give_up()
            raise

    def _work(self, parker: Parker) -> None:
        idle_since = time.monotonic()
        while self._is_wanted():
            now = time.monotonic()
            owed = self._owed.copy()
            if owed:
                idle_since = now
            closing = self._closed
            if due := [name for name, book in owed.items() if closing or book.look_at <= now]:
                self._send(due, now, closing=closing)
            elif not closing and (owed or now - idle_since < _IDLE_LIMIT):
                soonest = min((book.look_at - now for book in owed.values()), default=_IDLE_LIMIT)
                parker.park(soonest)
            else:
                with self._lock:
                    if not self._owed:
                        if self._is_wanted():
                            self._thread = None
                        return

    def _send(self, due: list[str], now: float, *, closing: bool) -> None:
        asked: dict[str, tuple[Merging, list[int], bool]] = {}
        for name in due:
            # Struck off first: whoever adds something from now on enters it again.
            book = self._owed.pop(name, None)
            if book is None:  # no thread could be started, and all was given up
                continue
            found = book.take(now, anyway=closing)
            if found is not None:
                asked[name] = (book, *found)
            elif book.owes and not closing:
                self._owed[name] = book
        if not asked:
            return
        answers = self._ask(asked)
        now = time.monotonic()
        for name, (book, _, _) in asked.items():
            book.answered(now, answers.get(name))
            if book.owes and not closing:
                self._owed[name] = book

    def _ask(
        self, asked: dict[str, tuple[Merging, list[int], bool]]
    ) -> dict[str, tuple[int | None, bool]]:
        """Look at the table and send what is owed; return what came of each name."""
        params = {
            "channel": self.channel,
            "names": list(asked),
            "jobs": ["{" + ",".join(map(str, jobs)) + "}" for _, jobs, _ in asked.values()],
            "forced": [forced for _, _, forced in asked.values()],
            "woken": [
                None if book.woken is None else str(book.woken) for book, _, _ in asked.values()
            ],
        }
        try:
            rows = self._database.fetch_all(self._sql["notify_idle"], params)
        except StoreClosed:
            return {}
        except BaseException as error:  # noqa: BLE001 - whoever waits polls
            if not self._failing:
                expected = isinstance(error, AlkstoreError)
                text = "wakes cannot be sent, waiters poll: %s"
                shown = None if expected else error
                say(logger, logging.WARNING, text, error, error=shown)
            self._failing = True
            return {}
        self._failing = False
        return {name: (waiting, sent) for name, waiting, sent in rows}
