"""What lives in this process, and hears of its forks and of its end."""

from __future__ import annotations

import atexit
import os
import weakref

from alkstore.runners import StartedRunners
from alkstore.runners.at_exit import stop_all
from alkstore_postgres.database import ending
from alkstore_postgres.parts import Parts

_lives: weakref.WeakSet[Life] = weakref.WeakSet()


class Life:
    """The part of an open store that forks and the interpreter's exit concern.

    Args:
        parts: What the store is made of.
        runners: What it has started.
    """

    def __init__(self, parts: Parts, runners: StartedRunners) -> None:
        self._parts = parts
        self._runners = runners
        _lives.add(self)
        # Exit functions run last in, first out: a pool that the application closes at exit, and
        # said so before it lent it, is still open when the store gives its claims back.
        atexit.unregister(_close_all)
        atexit.register(_close_all)

    def end(self) -> None:
        """Close the store at the end of the interpreter: as far as needed, and soon."""
        self._parts.end()

    def after_fork(self) -> None:
        """Leave everything of the parent's alone; the child begins anew at first use."""
        self._parts.after_fork()
        self._runners.after_fork()

    def over(self) -> None:
        """Note that the store was closed."""
        _lives.discard(self)


def _close_all() -> None:
    """Stop what still runs when the interpreter ends, so that claims and leases go back."""
    ending.begin()
    stop_all()
    ending.close_stores()
    for life in list(_lives):
        life.end()


def _after_fork() -> None:
    for life in list(_lives):
        life.after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
