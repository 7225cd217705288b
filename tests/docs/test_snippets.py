"""A reader may copy any Python block of the documentation: each of them runs as it stands."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import make_conninfo

import alkstore_postgres
from tests.docs.markdown import ROOT, Block, blocks, pages
from tests.support import server

WITH_PYTHON = [
    page for page in pages() if any(block.language == "python" for block in blocks(page))
]


def label(page: Path) -> str:
    return str(page.relative_to(ROOT))


@pytest.fixture
def database_url(conninfo: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A database of its own for each page, so that the blocks run with the default schema.

    On a server that is not the embedded one the role needs the right to create databases.
    """
    name = sql.Identifier(f"alkstore_docs_{uuid.uuid4().hex}")
    with psycopg.connect(conninfo, autocommit=True) as connection:
        connection.execute(sql.SQL("CREATE DATABASE {} TEMPLATE template0").format(name))
        url = make_conninfo(conninfo, dbname=name.as_string(connection).strip('"'))
        monkeypatch.setenv("DATABASE_URL", url)
        yield url
        connection.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(name))


@pytest.mark.parametrize("page", WITH_PYTHON, ids=label)
def test_the_examples_of_a_page_run_from_top_to_bottom(page: Path, database_url: str) -> None:
    if "embedded.server(" in page.read_text(encoding="utf-8"):
        missing = server.missing(url_serves=False)
        if missing is not None:
            pytest.skip(missing)
    with alkstore_postgres.open(database_url) as store:
        namespace: dict[str, Any] = {"__name__": "__docs__"}
        if page.parent.name != "how-to":  # those stand alone: each opens a store of its own
            namespace["store"] = store
        try:
            for block in blocks(page):
                if block.language == "python" and block.exempt is None:
                    run(block, page, namespace)
        finally:
            for left_open in namespace.values():
                if isinstance(left_open, alkstore_postgres.PostgresStore):
                    left_open.close()


def run(block: Block, page: Path, namespace: dict[str, Any]) -> None:
    # Empty lines above it make a traceback point at the line of the page.
    source = "\n" * (block.line - 1) + block.source
    code = compile(source, str(page), "exec", dont_inherit=True)
    exec(code, namespace)  # noqa: S102 - running the project's own pages is the test


@pytest.mark.parametrize("page", pages(), ids=label)
def test_every_block_names_its_language(page: Path) -> None:
    known = {"python", "sh", "sql", "text", "toml"}
    strangers = {block.language for block in blocks(page)} - known
    assert not strangers
