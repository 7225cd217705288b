"""The pytest plugin: fixtures for tests of applications that use a store.

Installed with alkstore (the ``pytest11`` entry point). A run that asks for no fixture of it
pays for the import and nothing else.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from alkstore.memory import ManualClock, MemoryStore

pytest.register_assert_rewrite("alkstore.testing.contract")


@pytest.fixture
def alkstore_clock() -> ManualClock:
    """Return the clock of `alkstore_memory`: it stands still until a test steps it."""
    return ManualClock()


@pytest.fixture
def alkstore_memory(alkstore_clock: ManualClock) -> Iterator[MemoryStore]:
    """Return an empty store in memory, with runners that end with the test."""
    with MemoryStore(clock=alkstore_clock) as store:
        yield store
