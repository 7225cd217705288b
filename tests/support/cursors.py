"""A place between the engine and the driver: whatever runs a statement."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from alkstore_postgres.database.cursor import EngineCursor
from alkstore_postgres.database.own_connection import OwnCursor

Run = Callable[..., None]
"""Called with a cursor, a statement, its parameters, and ``prepare``."""


def around_statements(monkeypatch: pytest.MonkeyPatch, wrap: Callable[[Run], Run]) -> None:
    """Have each statement of the engine, on its own and on lent connections, run by another.

    Args:
        monkeypatch: Puts things back.
        wrap: Makes the one that runs statements from the one that has run them.
    """
    kinds: tuple[Any, ...] = (EngineCursor, OwnCursor)
    for kind in kinds:
        monkeypatch.setattr(kind, "run", wrap(kind.run))
