"""What the tests of queues share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import psycopg
import pytest

from alkstore.traits import Queue
from alkstore_postgres import PostgresStore
from alkstore_postgres.database.statements import Statements
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


@pytest.fixture
def claim_statements(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of the claim statements that are sent from here on, in a list that grows."""
    # However busy the machine is: a slow look is followed by full ones.
    monkeypatch.setattr("alkstore_postgres.queue.claim_places.SLOW_LOOK", 600.0)
    sent: list[str] = []
    render = Statements._render

    def rendering(statements: Statements, name: str, limit: int | None) -> bytes:
        if name.startswith("claim"):
            sent.append(name)
        return render(statements, name, limit)

    monkeypatch.setattr(Statements, "_render", rendering)
    return sent
