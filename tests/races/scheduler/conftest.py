"""What the scheduler's race tests share."""

from __future__ import annotations

from typing import Any

import psycopg
import pytest

from alkstore_postgres.store import PostgresStore
from tests.support.schedules import ScheduleTable


@pytest.fixture
def table(store: PostgresStore, connection: psycopg.Connection[Any], schema: str) -> ScheduleTable:
    del store  # it has made the schema
    return ScheduleTable(connection, schema)
