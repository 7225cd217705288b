"""The end of the interpreter, as the daemon threads of an application meet it.

They run on while exit functions close the store, and the interpreter then drops them in the
middle of whatever they do. One that asks a store in between is not told that the store is
closed, in a traceback that would help nobody: it just does not come back.
"""

from __future__ import annotations

import threading

_ended_by: int | None = None


def begin() -> None:
    """Say that the interpreter is ending; called by the thread that runs the exit functions."""
    global _ended_by  # noqa: PLW0603 - there is one interpreter
    _ended_by = threading.get_ident()


def rest_if_ending() -> None:
    """At the end of the interpreter, keep the calling daemon thread for good."""
    if _ended_by is None or _ended_by == threading.get_ident():
        return
    if threading.current_thread().daemon:
        threading.Event().wait()
