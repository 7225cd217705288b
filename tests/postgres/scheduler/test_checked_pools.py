"""A lent pool that checks its connections, behind a network that falls silent in such a check.

The user's story: the application gave its pool ``check=ConnectionPool.check_connection``, as
psycopg advises. The check is a statement in the thread of whoever wants the connection, without a
limit, before anybody else can know of that connection.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator

import psycopg
import pytest
from psycopg_pool import ConnectionPool

from alkstore.errors import DatabaseError
from alkstore_postgres import PostgresStore
from alkstore_postgres.scheduler import registry as registry_module
from tests.support.leading import Leading
from tests.support.proxy import Proxy
from tests.support.schedules import ScheduleTable
from tests.support.timing import Stopwatch
from tests.support.waiting import wait_until

TTL = 1.0
CUT = 1.25 * TTL
"""After how many seconds a check-out is given up."""

SLACK = 2.0
"""What a busy test machine may add, in seconds; without a limit it would be for ever."""

CONNECTIONS = 2


class SilentAtCheck:
    """A way to the server that falls silent, once that is asked for, as a pool checks a connection.

    Args:
        conninfo: Where the server is.

    Attributes:
        proxy: The way.
        armed: Whether it is asked for.
    """

    def __init__(self, conninfo: str) -> None:
        self.armed = False
        self.proxy = Proxy(conninfo, self._observe)

    def speak(self) -> None:
        """Let connections through again; what was kept back is lost."""
        self.armed = False
        self.proxy.revive()

    def _observe(self, _connection: int, kind: bytes, body: bytes) -> None:
        if self.armed and kind == b"Q" and body == b"\0":
            self.proxy.stall()


@pytest.fixture
def way(conninfo: str) -> Iterator[SilentAtCheck]:
    """Return a way to the server."""
    way = SilentAtCheck(conninfo)
    with way.proxy:
        yield way


@pytest.fixture
def lent(way: SilentAtCheck) -> Iterator[ConnectionPool[psycopg.Connection]]:
    """Return an application's pool that goes this way."""
    with ConnectionPool(
        way.proxy.conninfo,
        kwargs={"prepare_threshold": None},
        check=ConnectionPool.check_connection,
        min_size=CONNECTIONS,
        max_size=CONNECTIONS,
        open=True,
    ) as pool:
        pool.wait()
        yield pool
        way.speak()


@pytest.fixture
def over(
    lent: ConnectionPool[psycopg.Connection], conninfo: str, schema: str
) -> Iterator[PostgresStore]:
    """Return a store over that pool; it listens on another way."""
    with PostgresStore(lent, schema, listen_conninfo=conninfo, timeout=30) as store:
        yield store


@pytest.fixture
def table(over: PostgresStore, connection: psycopg.Connection, schema: str) -> ScheduleTable:
    """Return the tables of this store."""
    del over  # it has made the schema
    return ScheduleTable(connection, schema)


def test_a_leader_waits_for_no_check_longer_than_its_lease_holds(
    way: SilentAtCheck,
    lent: ConnectionPool[psycopg.Connection],
    over: PostgresStore,
    table: ScheduleTable,
) -> None:
    over.schedule("s", "@every 1h", "q", 1)
    leading = Leading(over, ttl=TTL).lead()
    try:
        way.armed = True
        wait_until(lambda: way.proxy.silent)
        wait_until(lambda: leading.failures, CUT + SLACK)
        assert isinstance(leading.failures[0], DatabaseError)
        assert leading.failures[0].retryable
        way.speak()
        table.shift("s", -1)
        wait_until(lambda: table.jobs() == 1)
        assert leading.running
    finally:
        way.speak()
        leading.end()
    wait_until(lambda: not fetching())
    # What came late went back to the pool, or was replaced there.
    connections = [lent.getconn(timeout=10) for _ in range(CONNECTIONS)]
    for one in connections:
        lent.putconn(one)


def test_a_leader_that_is_stopped_in_a_check_ends_by_itself(
    way: SilentAtCheck, over: PostgresStore
) -> None:
    leading = Leading(over, ttl=TTL).lead()
    way.armed = True
    wait_until(lambda: way.proxy.silent)
    leading.end()
    assert leading.left_behind
    # The check, and then the one before the release.
    wait_until(lambda: not any(one.is_alive() for one in leading.left_behind), 2 * CUT + SLACK)
    way.speak()
    wait_until(lambda: not fetching())


def test_a_review_waits_for_no_check_for_long(
    way: SilentAtCheck, over: PostgresStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    way.armed = True
    with monkeypatch.context() as patch:
        patch.setattr(registry_module, "_REVIEW_CUT", TTL)
        with Stopwatch() as watch, pytest.raises(DatabaseError):
            over._parts.registry.review()
    assert way.proxy.silent
    assert watch.seconds < CUT + SLACK
    way.speak()
    wait_until(lambda: not fetching())
    assert over._parts.registry.review()["late"] == []


def fetching() -> list[threading.Thread]:
    """Return the threads that fetch a connection for another one."""
    return [one for one in threading.enumerate() if one.name == "alkstore-checkout"]
