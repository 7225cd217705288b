"""What the tests of queues share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import psycopg
import pytest

from alkstore.traits import Queue
from alkstore_postgres import PostgresStore
from tests.support.job_table import JobTable

OpenStore = Callable[..., PostgresStore]


@pytest.fixture
def store(open_store: OpenStore) -> PostgresStore:
    return open_store()


@pytest.fixture
def queue(store: PostgresStore) -> Queue:
    return store.queue("mail")


@pytest.fixture
def table(store: PostgresStore, connection: psycopg.Connection[Any], schema: str) -> JobTable:
    return JobTable(connection, schema)
