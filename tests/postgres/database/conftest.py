"""What is tested about connections covers those over which the schema is migrated."""

from __future__ import annotations

import pytest


@pytest.fixture
def schema(new_schema: str) -> str:
    return new_schema
