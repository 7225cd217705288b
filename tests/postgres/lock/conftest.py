"""What the tests of locks share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import psycopg
import pytest
from psycopg import sql


@pytest.fixture
def lapse(connection: psycopg.Connection[Any], schema: str) -> Callable[[str], None]:
    def make_lapse(name: str) -> None:
        query = "UPDATE {} SET expires_at = clock_timestamp() WHERE name = %s"
        table = sql.Identifier(schema, "locks")
        assert connection.execute(sql.SQL(query).format(table), [name]).rowcount == 1

    return make_lapse
