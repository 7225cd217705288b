"""What the scheduler's race tests share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import psycopg
import pytest

from alkstore_postgres.store import PostgresStore
from tests.support.schedules import ScheduleTable


@pytest.fixture
def store(open_store: Callable[..., PostgresStore]) -> PostgresStore:
    return open_store()


@pytest.fixture
def table(store: PostgresStore, connection: psycopg.Connection[Any], schema: str) -> ScheduleTable:
    return ScheduleTable(connection, schema)
