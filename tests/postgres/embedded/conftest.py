"""Fixtures for the tests of the embedded server."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from alkstore_postgres import embedded
from tests.support.embedding import Start
from tests.support.reachable import copy_home, open_folder


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder that everybody may enter."""
    with open_folder() as folder:
        yield folder


@pytest.fixture
def used(folder: Path, used_home: Path) -> Path:
    """A directory in which a server has run before."""
    return copy_home(used_home, folder)


@pytest.fixture
def start(server_programs: str | None) -> Iterator[Start]:
    """Starts servers that are stopped at the end."""
    with contextlib.ExitStack() as stack:

        def start_one(directory: Path | None = None, **options: Any) -> embedded.EmbeddedServer:
            given = {"bin_directory": server_programs, **options}
            return stack.enter_context(embedded.server(directory, **given))

        yield start_one
