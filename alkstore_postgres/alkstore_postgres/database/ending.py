"""The end of the interpreter, as the daemon threads of an application meet it.

They run on while exit functions close the store, and the interpreter then drops them in the
middle of whatever they do. One that asks a store in between is not told at once that the store is
closed, in a traceback that would help nobody: it rests, and mostly does not come back. But an
exit function may wait for it, and for whatever it holds; so the rest has an end.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Final

from alkstore.errors import StoreClosed

REST: Final = 2.0
"""For how long daemon threads rest, all of them together, in seconds."""

_begun = False
_ended_by: int | None = None
_rest_until = 0.0


class _Here(threading.local):
    """What is known of the calling thread.

    Attributes:
        locks: How many locks it holds that others may want.
    """

    locks = 0


_here = _Here()


def begin() -> None:
    """Say that the interpreter is ending: nobody needs to hear what is given up from now on."""
    global _begun  # noqa: PLW0603 - there is one interpreter
    _begun = True


def has_begun() -> bool:
    """Return whether the interpreter is ending."""
    return _begun


def close_stores() -> None:
    """Say that the stores are closed now; called by the thread that runs the exit functions."""
    global _ended_by, _rest_until  # noqa: PLW0603 - as well
    _rest_until = time.monotonic() + REST
    _ended_by = threading.get_ident()


def rest_if_ending() -> None:
    """At the end of the interpreter, keep the calling daemon thread until `REST` is over.

    Nothing happens under a lock that was taken with `holding`: whoever wants it, the thread that
    runs the exit functions for one, must not wait for the rest.
    """
    if _ended_by is None or _ended_by == threading.get_ident() or _here.locks:
        return
    if threading.current_thread().daemon:
        time.sleep(max(_rest_until - time.monotonic(), 0.0))


@contextmanager
def holding(lock: AbstractContextManager[object]) -> Iterator[None]:
    """Hold *lock* for the block; whoever hears there that the store is closed rests afterwards."""
    try:
        with lock:
            _here.locks += 1
            try:
                yield
            finally:
                _here.locks -= 1
    except StoreClosed:
        rest_if_ending()
        raise
