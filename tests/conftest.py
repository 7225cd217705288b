"""Fixtures for the whole suite: a real server, and a schema of its own for each test."""

from __future__ import annotations

import os
import secrets
import threading
from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import make_conninfo
from psycopg_pool import ConnectionPool

import alkstore_postgres
from alkstore_postgres import PostgresStore, embedded
from tests.support import server as test_server
from tests.support.server import TestServer

_NEEDS_SERVER = {"server", "conninfo"}


@pytest.fixture(scope="session")
def server() -> Iterator[TestServer]:
    """The server of this run."""
    with test_server.running() as running:
        yield running


@pytest.fixture(scope="session")
def conninfo(server: TestServer) -> str:
    """A database for a superuser; tests keep to a schema of their own in it."""
    return server.url


@pytest.fixture
def schema(conninfo: str) -> Iterator[str]:
    """A name that no other test uses; what was made under it is dropped at the end."""
    name = f"t {secrets.token_hex(6)}"
    yield name
    with psycopg.connect(conninfo, autocommit=True) as connection:
        # A session that a test left behind must not hold up the others for ever.
        connection.execute("SET lock_timeout = '20s'")
        connection.execute(sql.SQL("DROP SCHEMA IF EXISTS {} CASCADE").format(sql.Identifier(name)))


@pytest.fixture
def connection(conninfo: str) -> Iterator[psycopg.Connection[Any]]:
    """A connection in autocommit mode, to look at rows with."""
    with psycopg.connect(conninfo, autocommit=True) as connection:
        yield connection


@pytest.fixture
def pool(conninfo: str) -> Iterator[ConnectionPool[Any]]:
    """A pool as an application would have it: not in autocommit mode."""
    with ConnectionPool(conninfo, min_size=1, max_size=4, open=True) as pool:
        yield pool


@pytest.fixture
def open_store(conninfo: str, schema: str) -> Iterator[Callable[..., PostgresStore]]:
    """Open stores in the schema of this test; they are closed at its end."""
    opened: list[PostgresStore] = []

    def open_one(**options: Any) -> PostgresStore:
        store = alkstore_postgres.open(conninfo, **{"schema": schema, **options})
        opened.append(store)
        return store

    yield open_one
    for store in opened:
        store.close()


@pytest.fixture
def store(open_store: Callable[..., PostgresStore]) -> PostgresStore:
    """A store in the schema of this test."""
    return open_store()


@pytest.fixture
def database_url(conninfo: str) -> Iterator[str]:
    """The URL of a database of its own, dropped at the end."""
    name = f"d {secrets.token_hex(6)}"
    with psycopg.connect(conninfo, autocommit=True) as connection:
        connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
        yield make_conninfo(conninfo, dbname=name)
        connection.execute(
            sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(name))
        )


@pytest.fixture
def own_server() -> Iterator[embedded.EmbeddedServer]:
    """A server of this test alone, to take down and bring up again."""
    with embedded.server(
        bin_directory=os.environ.get(test_server.BINARIES_SETTING) or None,
        settings={"shared_buffers": "16MB"},
    ) as running:
        yield running


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Without a server, run the part that needs none; in CI that is an error."""
    reason = test_server.missing()
    if reason is None:
        return
    needing = [item for item in items if _NEEDS_SERVER & set(getattr(item, "fixturenames", ()))]
    if needing and os.environ.get("CI"):
        raise pytest.UsageError(reason)
    for item in needing:
        item.add_marker(pytest.mark.skip(reason=reason))


@pytest.fixture(autouse=True)
def _no_thread_is_left() -> Iterator[None]:
    """Fail a test that leaves a thread of ours running."""
    before = set(threading.enumerate())
    yield
    left = [
        thread
        for thread in set(threading.enumerate()) - before
        if thread.name.startswith("alkstore") and not _ends(thread)
    ]
    assert not left, f"threads left behind: {left}"


def _ends(thread: threading.Thread) -> bool:
    thread.join(5.0)
    return not thread.is_alive()
