"""Fixtures of the memory engine's tests."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timezone

import pytest

from alkstore.memory import ManualClock, MemoryStore


@pytest.fixture
def clock() -> ManualClock:
    """A clock that stands at the noon of a day."""
    return ManualClock(datetime(2030, 1, 1, 12, tzinfo=timezone.utc))


@pytest.fixture
def store(clock: ManualClock) -> Iterator[MemoryStore]:
    """A store whose time the test steps."""
    with MemoryStore(clock=clock) as store:
        yield store
