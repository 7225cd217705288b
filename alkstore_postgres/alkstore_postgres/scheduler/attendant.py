"""The attendant: lets a background loop go, whatever its database call is stuck in."""

from __future__ import annotations

import inspect
import logging
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import psycopg
from psycopg import generators, waiting

from alkstore.runners.say import say
from alkstore.stop_token import Parker, StopToken
from alkstore_postgres.database.database import Database
from alkstore_postgres.database.ending import has_begun

logger = logging.getLogger("alkstore.scheduler")

GRACE = 0.09
"""How long the loop may take to end after the stop before its caller is let go, in seconds."""

_LIBPQ_17 = 170_000
"""The version of the client library from which on it cancels over an encrypted connection."""

_CANCEL_LIMIT = 5.0
"""How long a cancellation may take, in seconds; where the network is gone it comes to nothing."""

_LOOKS = 4
"""How many times a call is looked at within its limit. Looks are counted, no clock is read:
one that jumps, or a process that was frozen, must not cut a call that has just begun."""


class Attendant:
    """Runs a loop in a thread of its own while the caller's thread attends to it.

    A database call cannot be interrupted from inside. So the caller waits outside: for the
    end of the loop, for the stop (then it leaves within `GRACE`, and a loop that is stuck in
    a call ends by itself later), and for a call that lasts too long, whose connection it
    then cuts, and whose statement it then cancels: a server session that waits for a lock does
    not notice that its client is gone, and would wait on.

    Args:
        limit: How long a database call may last, in seconds: a quarter more at the most.
        left: Told of the thread of a loop that the caller has left behind in a call.
    """

    def __init__(
        self, limit: float, left: Callable[[threading.Thread], None] | None = None
    ) -> None:
        self._limit = limit
        self._left = left
        self._lock = threading.Lock()
        self._connection: psycopg.Connection[Any] | None = None
        self._looks = 0
        self._cancelling: threading.Thread | None = None

    def watching(self, database: Database) -> Database:
        """Return *database* for the loop: whatever is sent through it is attended to.

        A connection is waited for no longer than a call may last.
        """
        return database.attended(self._call, self._limit)

    @contextmanager
    def _call(self, connection: psycopg.Connection[Any]) -> Iterator[None]:
        with self._lock:
            self._connection = connection
            self._looks = 0
        try:
            yield
        finally:
            with self._lock:
                self._connection = None

    def run(self, work: Callable[[StopToken], None], stop: StopToken) -> None:
        """Run *work* in a thread until it ends or *stop* is cancelled; raise what it raises.

        Args:
            work: The loop; it gets a token of its own, which is cancelled when the caller
                of this method is stopped or interrupted.
            stop: Lets the caller go, within `GRACE`.
        """
        parker = Parker()
        own = stop.child()
        ended: list[BaseException | None] = []

        def body() -> None:
            try:
                work(own)
            except BaseException as error:  # noqa: BLE001 - raised in the caller's thread
                ended.append(error)
            else:
                ended.append(None)
            finally:
                parker.unpark()

        thread = threading.Thread(target=body, name="alkstore leader", daemon=True)
        stop.attach(parker)
        try:
            thread.start()
            while not ended and not stop.cancelled:
                if not parker.park(self._limit / _LOOKS):
                    self._look()
        finally:
            own.cancel()
            stop.detach(parker)
            if thread.ident is not None:  # it was started
                self._let_go(thread, parker, ended)
        if ended and ended[0] is not None:
            raise ended[0]

    def _let_go(
        self, thread: threading.Thread, parker: Parker, ended: list[BaseException | None]
    ) -> None:
        """Wait for the end of the loop, but not for long."""
        # The wake of the stop may still be remembered: then the first park returns at once.
        while not ended and parker.park(GRACE):
            pass
        if ended:
            return
        if self._left is not None:
            self._left(thread)
        if not has_begun():
            say(
                logger,
                logging.WARNING,
                "the scheduler is stopped; a database call of it is still under way, and gives "
                "the lease back when it ends",
            )

        def see_off() -> None:
            while not ended:
                if not parker.park(self._limit / _LOOKS):
                    self._look()

        # At the interpreter's end no thread can be started any more, and none is needed.
        with suppress(RuntimeError):
            threading.Thread(target=see_off, name="alkstore attendant", daemon=True).start()

    def _look(self) -> None:
        with self._lock:
            connection = self._connection
            if connection is None:
                return
            self._looks += 1
            if self._looks <= _LOOKS:
                return
            self._connection = None
            cancel = _canceller(connection)
            _cut(connection)
        if self._cancelling is None or not self._cancelling.is_alive():
            # In a thread: where the network is gone, this lasts. Then no other is needed either.
            self._cancelling = threading.Thread(target=cancel, name="alkstore cancel", daemon=True)
            self._cancelling.start()
        say(
            logger,
            logging.WARNING,
            "a database call of the scheduler was ended after %g s",
            self._limit,
        )


def _canceller(connection: psycopg.Connection[Any]) -> Callable[[], None]:
    """Return what cancels the present statement of *connection*, even once that is cut."""
    try:
        if psycopg.pq.version() >= _LIBPQ_17:
            cancelling = connection.pgconn.cancel_conn()  # encrypted as the connection is

            def cancel() -> None:
                # Step by step: the driver's blocking call stops every thread meanwhile.
                cancelling.start()
                steps: Any = generators.cancel
                wait: Any = waiting.wait_conn
                if "timeout" in inspect.signature(steps).parameters:  # psycopg 3.2
                    wait(steps(cancelling, timeout=_CANCEL_LIMIT), interval=0.1)
                else:
                    wait(steps(cancelling), interval=0.1, timeout=_CANCEL_LIMIT)

        else:
            cancel = connection.pgconn.get_cancel().cancel
    except psycopg.Error:
        return lambda: None  # it is broken already

    def run() -> None:
        try:
            cancel()
        except Exception as error:  # noqa: BLE001 - of the driver's, its time-out among them
            say(
                logger,
                logging.WARNING,
                "a database call that was given up could not be cancelled: %s",
                error,
            )

    return run


def _cut(connection: psycopg.Connection[Any]) -> None:
    """Break the connection under a thread that waits for it: its call then fails."""
    try:
        with socket.fromfd(connection.fileno(), socket.AF_INET, socket.SOCK_STREAM) as copy:
            copy.shutdown(socket.SHUT_RDWR)
    except (OSError, psycopg.Error):
        return  # it is broken already
