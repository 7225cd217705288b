"""What is tested on both engines besides the contract."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from alkstore import Store
from tests.support.memory_harness import MemoryHarness
from tests.support.postgres_harness import PostgresHarness

Harness = MemoryHarness | PostgresHarness


@pytest.fixture(params=["memory", "postgres"])
def engine(request: pytest.FixtureRequest) -> Iterator[Harness]:
    if request.param == "memory":
        harness: Harness = MemoryHarness()
    else:
        harness = PostgresHarness(request.getfixturevalue("clocked_schemas"))
    yield harness
    harness.close()


@pytest.fixture
def store(engine: Harness) -> Store:
    return engine.open()
