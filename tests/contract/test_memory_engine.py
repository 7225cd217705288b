"""The in-memory engine passes the contract suite."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from alkstore._typing import override
from alkstore.testing import EngineHarness
from alkstore.testing.contract import EngineContract, GoingClockContract
from tests.support.memory_harness import MemoryHarness


class TestMemoryEngine(EngineContract):
    """The store clock stands still unless a test lets time pass."""

    @pytest.fixture
    @override
    def engine(self) -> Iterator[EngineHarness]:
        harness = MemoryHarness()
        yield harness
        harness.close()


class TestOnAClockThatGoesOn(GoingClockContract):
    """Who waits for a time sleeps until then, and nobody tells it that time has passed."""

    @pytest.fixture
    @override
    def engine(self) -> Iterator[EngineHarness]:
        harness = MemoryHarness(frozen=False)
        yield harness
        harness.close()


class TestWithStepsThatWakeNobody(EngineContract):
    """A harness may have a clock that goes on, and whoever waits learns of a step by itself."""

    @pytest.fixture(autouse=True)
    def _polls_more_often(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Nobody has to wait for five seconds to see that polls are enough."""
        monkeypatch.setattr("alkstore.memory.access.POLL", 0.5)

    @pytest.fixture
    @override
    def engine(self) -> Iterator[EngineHarness]:
        harness = MemoryHarness(frozen=False, heard=False)
        yield harness
        harness.close()
