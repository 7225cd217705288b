"""What the scheduler's tests share."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from alkstore_postgres.scheduler.tick import Ticker
from alkstore_postgres.store import PostgresStore
from tests.support.ear import Ear
from tests.support.schedules import ScheduleTable


@pytest.fixture
def table(store: PostgresStore, connection: psycopg.Connection[Any], schema: str) -> ScheduleTable:
    del store  # it has made the schema
    return ScheduleTable(connection, schema)


@pytest.fixture
def ticker(store: PostgresStore) -> Ticker:
    """A ticker of a rogue kind: it is used without any lease."""
    parts = store._parts
    return Ticker(parts.database, parts.leases, parts.sender.channel, ttl=10.0)


@pytest.fixture
def ear(table: ScheduleTable, conninfo: str, schema: str) -> Iterator[Ear]:
    del table  # the schema is there
    with Ear(conninfo, schema) as listening:
        yield listening
