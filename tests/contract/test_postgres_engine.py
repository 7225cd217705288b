"""The PostgreSQL engine passes the contract suite."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from alkstore._typing import override
from alkstore.testing import EngineHarness
from alkstore.testing.contract import (
    BoundariesContract,
    EngineContract,
    GoingClockContract,
    WaitingContract,
)
from tests.support.postgres_harness import PostgresHarness
from tests.support.schemas import Schemas


class TestPostgresEngine(EngineContract):
    """The store clock stands still unless a test lets time pass."""

    @pytest.fixture
    @override
    def engine(self, clocked_schemas: Schemas) -> Iterator[EngineHarness]:
        harness = PostgresHarness(clocked_schemas)
        yield harness
        harness.close()


class TestOnAClockThatGoesOn(BoundariesContract, GoingClockContract, WaitingContract):
    """Where the clock does not wait for the test, what was stored lies between two readings."""

    @pytest.fixture
    @override
    def engine(self, clocked_schemas: Schemas) -> Iterator[EngineHarness]:
        harness = PostgresHarness(clocked_schemas, frozen=False)
        yield harness
        harness.close()
