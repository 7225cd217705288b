"""Faults on the way to the database."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import psycopg
import pytest

from alkstore_postgres import PostgresStore
from alkstore_postgres.database.cursor import EngineCursor
from tests.support.cursors import Run, around_statements


def settling(store: PostgresStore, *names: str) -> list[str]:
    """Return the texts of the statements that settle or extend claims, by their names."""
    statements = store._parts.queues.settler._sql
    return [statements[name].decode() for name in names]


class Faults:
    """Raises instead of, or after, statements of the threads of runners.

    Args:
        patch: Undoes it when the test is over.
    """

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.seen: list[str] = []
        self._wrong: Callable[[int, str], BaseException | None] = lambda _number, _query: None
        self._afterwards = False

        def faulty(run: Run) -> Run:
            def running(cursor: EngineCursor, query: bytes, *args: Any, **options: Any) -> None:
                if not threading.current_thread().name.startswith("alkstore "):
                    run(cursor, query, *args, **options)
                    return
                text = query.decode()
                self.seen.append(text)
                error = self._wrong(len(self.seen), text)
                if error is None or self._afterwards:
                    run(cursor, query, *args, **options)
                if error is not None:
                    raise error

            return running

        around_statements(patch, faulty)

    def at(self, number: int, error: BaseException, *, afterwards: bool = False) -> None:
        """Raise *error* at the statement of this *number* only, from 1."""
        self._afterwards = afterwards
        self._wrong = lambda count, _query: error if count == number else None

    def block(self, *queries: str) -> None:
        """Raise a lost connection at each of these statements."""
        self._afterwards = False
        self._wrong = lambda _count, query: (
            psycopg.OperationalError("injected") if query in queries else None
        )

    def end(self) -> None:
        """Let everything through from now on."""
        self._wrong = lambda _number, _query: None
