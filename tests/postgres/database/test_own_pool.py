"""The store's own pool: connections that go round past the pool's books are lost to nobody."""

from __future__ import annotations

import sys
import threading
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from typing import Any

import psycopg
import pytest
from psycopg_pool import ConnectionPool, PoolClosed, PoolTimeout
from psycopg_pool.pool import MaintenanceTask

from alkstore._typing import override
from alkstore_postgres.database import own_pool
from alkstore_postgres.database.own_connection import OwnConnection
from alkstore_postgres.database.own_pool import OwnPool
from tests.support.timing import Stopwatch
from tests.support.waiting import wait_until

MakePool = Callable[..., OwnPool]


@pytest.fixture(autouse=True)
def _kept_for_long(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a connection go round for as long as a machine may stand still."""
    monkeypatch.setattr(own_pool, "KEPT_FOR", 3600.0)


@pytest.fixture
def make_pool(conninfo: str) -> Iterator[MakePool]:
    """Make pools that are closed at the end."""
    with ExitStack() as stack:

        def make(min_size: int, max_size: int) -> OwnPool:
            pool = OwnPool(
                conninfo,
                connection_class=OwnConnection,
                min_size=min_size,
                max_size=max_size,
                kwargs={"autocommit": True},
                open=True,
            )
            stack.callback(pool.close)
            pool.wait()
            return pool

        yield make


@contextmanager
def lent(pool: OwnPool, timeout: float = 10.0) -> Iterator[OwnConnection]:
    """Lend a connection for the block."""
    connection = pool.getconn(timeout)
    try:
        yield connection
    finally:
        pool.putconn(connection)


def test_what_came_back_last_is_handed_out_again(make_pool: MakePool) -> None:
    pool = make_pool(2, 2)
    with lent(pool) as one:
        pass
    returned = pool.get_stats()["pool_available"]
    with lent(pool) as again:
        assert again is one
    assert pool.get_stats()["pool_available"] == returned == 1, "the pool was told"


class _Holding(MaintenanceTask):
    """Has a thread of the pool hold it until it is told to go on."""

    begun = threading.Event()
    go_on = threading.Event()

    @override
    def _run(self, pool: ConnectionPool[Any]) -> None:
        self.begun.set()
        assert self.go_on.wait(10)
        assert not pool.closed


def test_a_dropped_pool_ends_quietly_in_a_thread_of_its_own(
    conninfo: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    complaints: list[Any] = []
    monkeypatch.setattr(sys, "unraisablehook", complaints.append)
    pool = OwnPool(conninfo, connection_class=OwnConnection, min_size=0, max_size=1, open=True)
    threads = list(pool._workers)
    pool.run_task(_Holding(pool))
    assert _Holding.begun.wait(10)
    del pool
    _Holding.go_on.set()
    for thread in threads:
        thread.join(10)
        assert not thread.is_alive()
    assert complaints == []


def test_whoever_waits_gets_what_comes_back(make_pool: MakePool) -> None:
    pool = make_pool(1, 1)
    with ThreadPoolExecutor(1) as threads:
        with lent(pool) as one:
            other = threads.submit(pool.getconn, 10)
            wait_until(lambda: pool.get_stats()["requests_waiting"] == 1)
        assert other.result(10) is one
        with pytest.raises(PoolTimeout):
            pool.getconn(0.01)
        pool.putconn(one)
        with lent(pool) as again:
            assert again is one


def test_what_lies_ready_goes_to_whoever_asks_at_that_moment(
    make_pool: MakePool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other order: somebody announces that it waits between the look and the laying down."""
    pool = make_pool(1, 1)
    connection = pool.getconn(10)
    with ThreadPoolExecutor(1) as threads:
        asked: list[Any] = []

        class Ready(type(pool._ready)):  # type: ignore[misc]
            def append(self, one: deque[OwnConnection]) -> None:
                asked.append(threads.submit(pool.getconn, 10))
                wait_until(lambda: pool.get_stats()["requests_waiting"] == 1)
                super().append(one)

        monkeypatch.setattr(pool, "_ready", Ready())
        pool.putconn(connection)
        assert asked[0].result(10) is connection
        pool.putconn(connection)


def test_the_pool_sees_a_busy_connection_now_and_then(
    make_pool: MakePool, monkeypatch: pytest.MonkeyPatch
) -> None:
    pool = make_pool(1, 1)
    with lent(pool):
        pass
    assert pool.get_stats()["pool_available"] == 0
    monkeypatch.setattr(own_pool, "KEPT_FOR", 0.0)
    with lent(pool):
        pass
    assert pool.get_stats()["pool_available"] == 1


@pytest.mark.parametrize("least", [0, 1, 2])
def test_no_more_lie_ready_than_the_pool_would_keep(make_pool: MakePool, least: int) -> None:
    pool = make_pool(least, 3)
    with lent(pool), lent(pool), lent(pool):
        pass
    wait_until(lambda: pool.get_stats()["pool_size"] == 3)
    assert len(pool._ready) == least
    assert pool.get_stats()["pool_available"] == 3 - least


@pytest.mark.parametrize("statement", ["BEGIN", "SELECT pg_catalog.pg_terminate_backend(pid)"])
def test_what_is_left_in_the_middle_is_not_handed_on(make_pool: MakePool, statement: str) -> None:
    pool = make_pool(1, 1)
    with lent(pool) as one:
        if statement == "BEGIN":
            one.execute("BEGIN")
        else:
            with pytest.raises(psycopg.Error):
                one.execute("SELECT pg_catalog.pg_terminate_backend(pg_catalog.pg_backend_pid())")
    with lent(pool) as other:
        assert other.execute("SELECT 1").fetchone() == (1,)
        assert other.info.transaction_status == psycopg.pq.TransactionStatus.IDLE


def test_closing_closes_what_lies_ready(make_pool: MakePool) -> None:
    pool = make_pool(1, 2)
    ready, late = pool.getconn(10), pool.getconn(10)
    pool.putconn(ready)
    assert [list(hands) for hands in pool._ready] == [[ready]]
    pool.close()
    assert ready.closed
    pool.putconn(late)
    assert late.closed
    assert not pool._ready
    with pytest.raises(PoolClosed):
        pool.getconn(1)


def test_many_threads_share_few_connections(make_pool: MakePool) -> None:
    """More threads than connections: nobody waits for what lies ready, and none is lost."""
    pool = make_pool(2, 3)
    start = threading.Barrier(12)

    def use(_: int) -> int:
        start.wait(10)
        for number in range(300):
            with lent(pool, 20.0) as connection:
                if number % 50 == 0:
                    connection.execute("SELECT 1")
        return 300

    with Stopwatch() as watch, ThreadPoolExecutor(12) as threads:
        assert sum(threads.map(use, range(12))) == 3_600
    assert watch.seconds < 20.0
    assert not pool._asking
    with lent(pool) as one, lent(pool) as two, lent(pool) as three:
        assert len({id(one), id(two), id(three)}) == 3
