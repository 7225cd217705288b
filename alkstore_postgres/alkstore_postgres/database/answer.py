"""Waiting for the answer to one statement.

psycopg waits by a generator, which each statement makes, feeds and takes apart: a fifth of what a
short one costs in the client. Nearly always a statement is sent as a whole, and its answer comes as
a whole. Then a poll, a read and a look are enough, in the steps that psycopg's own generator takes
(libpq's documentation, "Asynchronous Command Processing").
"""

from __future__ import annotations

import selectors
import time
from contextlib import suppress
from typing import Any, Final

import psycopg
from psycopg import generators, waiting
from psycopg.pq import ExecStatus, TransactionStatus
from psycopg.pq.abc import PGconn, PGresult

LOOK_EVERY: Final = 100
"""A thread that waits runs after so many milliseconds: an exception may have been set in it."""

CANCEL_LIMIT: Final = 5.0
"""How long, in seconds, Ctrl-C waits for its requests to cancel, and for the statement to end."""

_CANCEL_AGAIN: Final = 0.5
"""After so many seconds a request to cancel is repeated. The server forgets one that comes between
two messages of a statement; that it may have no effect is in the
documentation of its protocol ("Canceling Requests in Progress")."""

_IS_USUAL: Final = getattr(waiting.wait, "__name__", "") == "wait_c"
"""Whether psycopg waits as it does by itself; not so where ``PSYCOPG_WAIT_FUNC`` chooses, or where
gevent has put polls of its own in the place of Python's, which belong to one thread each."""


def await_answer(connection: psycopg.Connection[Any], poll: Any) -> PGresult:
    """Return the server's answer to the one statement that was sent.

    What interrupts this may leave the statement running; see `cancel`.

    Args:
        connection: Where it was sent.
        poll: Watches the connection's socket for something to read (a `select.poll`); ``None``:
            there is no such thing here.

    Raises:
        psycopg.OperationalError: The connection is lost.
    """
    pgconn = connection.pgconn
    if poll is None or not _IS_USUAL or pgconn.flush():
        answers: list[PGresult] = connection.wait(generators.execute(pgconn))
        return answers[-1]
    return _read(pgconn, poll)


def _read(pgconn: PGconn, poll: Any) -> PGresult:
    answer: PGresult | None = None
    try:
        while True:
            while pgconn.is_busy():
                if poll.poll(LOOK_EVERY):
                    pgconn.consume_input()
            while (notification := pgconn.notifies()) is not None:
                if pgconn.notify_handler is not None:
                    pgconn.notify_handler(notification)
            following = pgconn.get_result()
            if following is not None:
                answer = following
            elif answer is not None:
                return answer
            else:
                msg = "the statement had no answer"
                raise psycopg.OperationalError(msg)
    except psycopg.Error:
        # The server has said why it ended the session: that tells more than that it did.
        if answer is not None and answer.status == ExecStatus.FATAL_ERROR:
            return answer
        raise


def cancel(connection: psycopg.Connection[Any]) -> None:
    """End what runs on the connection, which can be used afterwards, or is closed.

    Args:
        connection: Where something may have been sent, and not been answered.
    """
    pgconn = connection.pgconn
    if pgconn.transaction_status != TransactionStatus.ACTIVE:
        return
    deadline = time.monotonic() + CANCEL_LIMIT
    try:
        with suppress(Exception):  # it must not take the place of the Ctrl-C
            if pgconn.flush():
                return  # the server waits for the rest, and commits nothing without it
            with selectors.DefaultSelector() as selector:
                selector.register(pgconn.socket, selectors.EVENT_READ)
                left, patience = CANCEL_LIMIT, 0.0  # perhaps the answer is here
                while left > 0 and not _ends(pgconn, selector, min(patience, left)):
                    connection.cancel_safe(timeout=left)
                    left, patience = deadline - time.monotonic(), _CANCEL_AGAIN
    finally:  # Ctrl-C once more, for one
        if pgconn.transaction_status == TransactionStatus.ACTIVE:
            connection.close()


def _ends(pgconn: PGconn, selector: selectors.BaseSelector, limit: float) -> bool:
    """Return whether the statement ends within *limit* seconds, with all its answers read."""
    deadline = time.monotonic() + limit
    has_looked = False
    while True:
        while pgconn.is_busy():
            left = max(deadline - time.monotonic(), 0.0)
            if has_looked and not left:
                return False
            if selector.select(left):
                pgconn.consume_input()
            has_looked = True
        if pgconn.get_result() is None:
            return True
