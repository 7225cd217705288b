"""Waiting for the answer to one statement.

psycopg waits by a generator, which each statement makes, feeds and takes apart: a fifth of what a
short one costs in the client. Nearly always a statement is sent as a whole, and its answer comes as
a whole. Then a poll, a read and a look are enough, in the steps that psycopg's own generator takes
(libpq's documentation, "Asynchronous Command Processing").
"""

from __future__ import annotations

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

    Whatever interrupts this leaves the statement running; see `cancel`.

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


def cancel(connection: psycopg.Connection[Any], poll: Any) -> None:
    """End what runs on the connection, which can be used afterwards, or is closed.

    Args:
        connection: Where something may have been sent, and not been answered.
        poll: As for `await_answer`.
    """
    pgconn = connection.pgconn
    if pgconn.transaction_status != TransactionStatus.ACTIVE:
        return
    deadline = time.monotonic() + CANCEL_LIMIT
    try:
        with suppress(psycopg.Error):
            while (left := deadline - time.monotonic()) > 0:
                connection.cancel_safe(timeout=left)
                if poll is None or not _IS_USUAL or _ends(pgconn, poll, min(_CANCEL_AGAIN, left)):
                    return
    finally:  # Ctrl-C once more, for one
        if pgconn.transaction_status == TransactionStatus.ACTIVE:
            connection.close()


def _ends(pgconn: PGconn, poll: Any, limit: float) -> bool:
    """Return whether the statement ends within *limit* seconds, with all its answers read."""
    deadline = time.monotonic() + limit
    while True:
        while pgconn.is_busy():
            if time.monotonic() >= deadline:
                return False
            if poll.poll(LOOK_EVERY):
                pgconn.consume_input()
        if pgconn.get_result() is None:
            return True
