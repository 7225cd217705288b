"""What joining a caller's transaction gives."""

from __future__ import annotations

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
