"""An errand: another thread fetches a connection, for one that must not wait for it itself."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Any, Generic, TypeVar

import psycopg
from psycopg_pool import PoolTimeout

from alkstore.stop_token import Parker

C = TypeVar("C", bound="psycopg.Connection[Any]")


class Errand(Generic[C]):
    """A connection that another thread fetches, for one that may be interrupted or gives up.

    Args:
        fetch: Waits for a connection.
        put_back: Gives back what is left in the hands of those who wanted it.
    """

    def __init__(self, fetch: Callable[[], C], put_back: Callable[[deque[C]], None]) -> None:
        self._fetch = fetch
        self._put_back = put_back
        self._parker = Parker()
        # Whoever takes something out of here decides: the connection or its failure, which only
        # one can have, and the wish to have it.
        self._found: deque[C] = deque()
        self._failed: list[BaseException] = []
        self._wanted = [True]

    def start(self) -> bool:
        """Begin; return whether a thread could be started for it."""
        thread = threading.Thread(target=self._run, name="alkstore-checkout", daemon=True)
        try:
            thread.start()
        except RuntimeError:  # no more threads, or the interpreter is ending
            return False
        except BaseException:  # Ctrl-C: it may run
            self._call_off()
            raise
        return True

    def _run(self) -> None:
        """Fetch a connection."""
        try:
            connection = self._fetch()
        except BaseException as error:  # noqa: BLE001 - told to whoever waits
            self._failed.append(error)
        else:
            self._found.append(connection)
            if not self._wanted:
                self._put_back(self._found)
        self._parker.unpark()

    def wait(self, limit: float) -> C:
        """Return what was fetched within *limit* seconds, or raise what came instead.

        What comes later is given back.
        """
        deadline = time.monotonic() + limit
        try:
            while not self._found:
                if self._failed:
                    raise self._failed.pop()  # noqa: TRY301 - no harm: nothing was found
                left = deadline - time.monotonic()
                if left <= 0:
                    msg = f"no connection was fetched within {limit:g} s"
                    raise PoolTimeout(msg)  # noqa: TRY301 - what comes late is given back
                self._parker.park(left)
            return self._found.pop()
        except BaseException:
            self._call_off()
            raise

    def _call_off(self) -> None:
        """Have what is, or will be, fetched given back."""
        self._wanted.clear()
        self._put_back(self._found)
