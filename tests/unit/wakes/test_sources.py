"""What must not be found in the engine's sources."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import alkstore_postgres

SOURCES = sorted(
    path
    for path in Path(alkstore_postgres.__path__[0]).rglob("*")
    if path.suffix in (".py", ".sql")
)


@pytest.mark.parametrize("source", SOURCES, ids=str)
def test_no_session_level_advisory_lock_is_taken(source: Path) -> None:
    """Field case B117: behind a pooler it would stay with a stranger's session."""
    text = source.read_text(encoding="utf-8")
    assert not re.search(r"pg_(try_)?advisory_lock(_shared)?\b", text)


@pytest.mark.parametrize("source", SOURCES, ids=str)
def test_no_private_part_of_the_driver_hears_notifications(source: Path) -> None:
    """Field case B71: the driver's generators fill a backlog that nobody empties."""
    text = source.read_text(encoding="utf-8")
    assert not re.search(r"psycopg\.generators|_notifies_backlog|add_notify_handler", text)
