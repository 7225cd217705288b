"""What the tests of jobs share, in whichever mechanism they are."""

from __future__ import annotations

from typing import Any

import psycopg
import pytest

from tests.support.rows import Rows


@pytest.fixture
def rows(connection: psycopg.Connection[Any], schema: str) -> Rows:
    """Return the rows, to move their times."""
    return Rows(connection, schema)
