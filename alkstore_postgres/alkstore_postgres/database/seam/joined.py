"""What joining a caller's transaction gives."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any, Protocol

from alkstore_postgres.database.cursor import Params


class Joined(Protocol):
    """Runs statements inside a caller's transaction, whatever driver carries it.

    Each call is one round trip, and raises `DatabaseError` when it fails.
    """

    def execute(self, query: bytes, params: Params = None) -> int:
        """Run a statement; return how many rows it touched."""
        ...

    def fetch_value(self, query: bytes, params: Params = None) -> Any:
        """Run a statement that returns a row; return the row's first value."""
        ...


class Noticing:
    """Statements below a framework, which notices their failures as it does those of its own.

    Args:
        inner: Runs them on the driver's connection.
    """

    __slots__ = ("_inner",)

    def __init__(self, inner: Joined) -> None:
        self._inner = inner

    def execute(self, query: bytes, params: Params = None) -> int:
        """Run a statement; return how many rows it touched."""
        with self._noticed():
            return self._inner.execute(query, params)

    def fetch_value(self, query: bytes, params: Params = None) -> Any:
        """Run a statement that returns a row; return the row's first value."""
        with self._noticed():
            return self._inner.fetch_value(query, params)

    def _noticed(self) -> AbstractContextManager[None]:
        """Tell the framework of a `DatabaseError`, which goes on its way."""
        raise NotImplementedError
