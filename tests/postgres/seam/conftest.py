"""What the tests of the seam share."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from psycopg import sql

from alkstore_postgres import PostgresStore
from tests.support.carriers import MAKERS, Carrier


@pytest.fixture(params=MAKERS)
def carrier(request: pytest.FixtureRequest, conninfo: str) -> Iterator[Carrier]:
    """A transaction of the application, of every kind in turn."""
    made = MAKERS[request.param](conninfo)
    yield made
    made.close()


@pytest.fixture
def orders(
    store: PostgresStore, schema: str, connection: psycopg.Connection[Any]
) -> sql.Identifier:
    """A table of the application."""
    table = sql.Identifier(schema, "orders")
    connection.execute(sql.SQL("CREATE TABLE {} (id int PRIMARY KEY)").format(table))
    return table
