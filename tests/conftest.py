"""Fixtures for the whole suite: a real server, and for each test a schema to itself."""

from __future__ import annotations

import secrets
import signal
import threading
from collections.abc import Callable, Generator, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import make_conninfo
from psycopg_pool import ConnectionPool

import alkstore_postgres
from alkstore_postgres import PostgresStore, embedded
from tests.support import postgres_harness
from tests.support import server as test_server
from tests.support.leftovers import Leftovers
from tests.support.processes import Children
from tests.support.proxy import Proxy
from tests.support.reachable import copy_home, open_folder
from tests.support.schemas import Schemas
from tests.support.server import TestServer
from tests.support.sql_probe import SqlProbe

pytest_plugins = ["tests.support.sharing_out"]

# Fixtures of tests that need a server, and of tests that need one to take down.
_NEED_SERVER = {"server"}
_NEED_PROGRAMS = {"server_programs"}


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Make what a test has printed and logged fit to be sent between the run's processes."""
    report = yield
    report.sections = [
        (title, text.encode("utf-8", "backslashreplace").decode())
        for title, text in report.sections
    ]
    return report


@pytest.fixture(scope="session", autouse=True)
def _nothing_is_left() -> Iterator[None]:
    """Fail a run that leaves a server, a child process or a thread behind."""
    leftovers = Leftovers()
    yield
    leftovers.check()


@pytest.fixture(scope="session", autouse=True)
def _ctrl_c_is_heard() -> None:
    """A shell ignores Ctrl-C for what it runs in the background, and so would the children."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def server() -> Iterator[TestServer]:
    """The server of this run."""
    with test_server.running() as running:
        yield running


@pytest.fixture(scope="session")
def conninfo(server: TestServer) -> str:
    """A database for a superuser; tests keep to a schema of their own in it."""
    return server.url


@pytest.fixture(scope="session")
def schemas(conninfo: str) -> Iterator[Schemas]:
    """Migrated schemas, for one test after another."""
    with closing(Schemas(conninfo)) as schemas:
        yield schemas


@pytest.fixture(scope="session")
def clocked_schemas(conninfo: str) -> Iterator[Schemas]:
    """Migrated schemas with a clock that a harness has its hands on."""
    with closing(Schemas(conninfo, with_more=postgres_harness.CLOCK)) as schemas:
        yield schemas


@pytest.fixture
def schema(schemas: Schemas) -> Iterator[str]:
    """The name of a migrated schema with nothing in it, which no other test uses meanwhile."""
    name = schemas.take()
    yield name
    schemas.give_back(name)


@pytest.fixture
def new_schema(conninfo: str) -> Iterator[str]:
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
        connection.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(name)))


@pytest.fixture(scope="session")
def server_programs() -> str | None:
    """The folder with the server's programs, for `embedded.server`; `None`: the extra's."""
    return test_server.given_binaries()


@pytest.fixture(scope="session")
def used_home(server_programs: str | None) -> Iterator[Path]:
    """A directory of `embedded.server`, stopped: a copy of it starts fast. Not to be touched."""
    with open_folder() as folder:
        with embedded.server(folder / "used", bin_directory=server_programs):
            pass
        yield folder / "used"


@pytest.fixture
def own_server(server_programs: str | None, used_home: Path) -> Iterator[embedded.EmbeddedServer]:
    """A server of this test alone, to take down and bring up again."""
    with (
        open_folder() as folder,
        embedded.server(
            copy_home(used_home, folder),
            bin_directory=server_programs,
            settings={"shared_buffers": "16MB"},
        ) as running,
    ):
        yield running


@pytest.fixture
def proxy(conninfo: str) -> Iterator[Proxy]:
    """A way to the server that can be cut or fall silent."""
    with Proxy(conninfo) as proxy:
        yield proxy


@pytest.fixture
def sql_probe(conninfo: str) -> Iterator[SqlProbe]:
    """A way to the server that counts what goes over it."""
    with SqlProbe(conninfo) as probe:
        yield probe


@pytest.fixture
def children() -> Iterator[Children]:
    """Starts child processes that are gone when the test is over."""
    with Children() as children:
        yield children


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """In CI nothing is skipped for want of a server."""
    reasons = {reason for item in items if (reason := _wanting(item)) is not None}
    if reasons and test_server.in_ci():
        raise pytest.UsageError(*sorted(reasons))


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip what needs a server that is not there.

    All at this one place, so that the summary folds them into one line.
    """
    reason = _wanting(item)
    if reason is not None:
        pytest.skip(reason)


def _wanting(item: pytest.Item) -> str | None:
    asked = set(getattr(item, "fixturenames", ()))
    if asked & _NEED_SERVER:
        return test_server.missing(url_serves=True)
    if asked & _NEED_PROGRAMS:
        return test_server.missing(url_serves=False)
    return None


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
