"""What is tested about the schema begins before there is one."""

from __future__ import annotations

import pytest


@pytest.fixture
def schema(new_schema: str) -> str:
    return new_schema
