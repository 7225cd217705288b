"""A Ctrl-C while a connection is checked out takes none from the pool."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import psycopg
import pytest
from psycopg_pool import ConnectionPool

from alkstore import DatabaseError
from alkstore._typing import override
from alkstore_postgres import PostgresStore
from alkstore_postgres.database import database, own_pool
from alkstore_postgres.database.answer import await_answer
from alkstore_postgres.database.errand import Errand
from alkstore_postgres.database.own_connection import OwnConnection
from alkstore_postgres.database.own_pool import OwnPool
from tests.support.waiting import wait_until

OpenStore = Callable[..., PostgresStore]

CALLS: dict[str, Callable[[PostgresStore], object]] = {
    "a statement": lambda store: store.queue("mail").enqueue(1),
    "a transaction": lambda store: store.queue("mail").enqueue_many([1, 2]),
    "a loan": lambda store: store.transaction().__enter__(),
}


@pytest.fixture(params=["own", "lent"])
def of_two(
    request: pytest.FixtureRequest, open_store: OpenStore, conninfo: str, schema: str
) -> Any:
    """A store over two connections."""
    if request.param == "own":
        yield open_store(min_size=2, max_size=2, timeout=5)
        return
    open_store().close()
    with ConnectionPool(conninfo, min_size=2, max_size=2, open=True) as pool:
        yield PostgresStore(pool, schema, timeout=5)


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("place", ["is_dead", "close"])
def test_an_interrupted_check_out_gives_its_connection_back(
    of_two: PostgresStore, monkeypatch: pytest.MonkeyPatch, call: str, place: str
) -> None:
    of_two.queue("mail").enqueue(0)

    def interrupted(_: psycopg.Connection[Any]) -> bool:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        if place == "close":  # of one that turned out to be dead
            patched.setattr(OwnConnection, "is_silent", lambda _: False)
            patched.setattr(database, "is_dead", lambda _: True)
            patched.setattr(psycopg.Connection, "close", interrupted)
        else:
            patched.setattr(OwnConnection, "is_silent", interrupted)
            patched.setattr(database, "is_dead", interrupted)
        for _ in range(2):
            with pytest.raises(KeyboardInterrupt):
                CALLS[call](of_two)
    with of_two.transaction(), of_two.transaction():
        pass
    assert of_two.queue("mail").size() == 1


def test_an_interrupt_as_a_connection_is_handed_over_loses_none(open_store: OpenStore) -> None:
    """Ctrl-C while the main thread waits for the only connection, at the moment it comes back."""
    store = open_store(min_size=1, max_size=1, timeout=5)
    for pause in (0.0, 0.0005, 0.002) * 3:
        with ThreadPoolExecutor(1) as threads:
            out = threading.Event()
            done = threads.submit(hold, store, out, pause)
            assert out.wait(10)
            with pytest.raises(KeyboardInterrupt):
                call_until_interrupted(store)
            done.result(10)
        assert store.get_job(5) is None, "the connection is lost"


def call_until_interrupted(store: PostgresStore) -> None:
    for _ in range(1_000_000):  # the interrupt may come after the first call
        store.get_job(5)


def hold(store: PostgresStore, out: threading.Event, pause: float) -> None:
    """Hold the only connection until the main thread waits for it; interrupt that thread."""
    pool = store._pools.current()
    with store.transaction():
        out.set()
        wait_until(lambda: pool.get_stats().get("requests_waiting") == 1)
    time.sleep(pause)
    os.kill(os.getpid(), signal.SIGINT)
    time.sleep(0.05)  # heard before anything is waited for


def test_an_interrupted_return_loses_no_connection(
    open_store: OpenStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(own_pool, "KEPT_FOR", 3600.0)  # it is laid ready, however late it comes
    store = open_store(min_size=1, max_size=1, timeout=5)

    class Interrupted(deque[deque[OwnConnection]]):
        @override
        def append(self, _: deque[OwnConnection], /) -> None:
            raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(store._pools.current(), "_ready", Interrupted())
        with pytest.raises(KeyboardInterrupt):
            store.get_job(5)
    assert store.get_job(5) is None


@contextmanager
def _interrupted_as_it_lies_ready(pool: OwnPool, meanwhile: Callable[[], object]) -> Iterator[None]:
    """Interrupt the next return just after the connection was laid ready."""
    kept = pool._ready

    class Interrupted(deque[deque[OwnConnection]]):
        @override
        def append(self, hands: deque[OwnConnection], /) -> None:
            pool._ready = kept
            kept.append(hands)
            meanwhile()
            raise KeyboardInterrupt

    pool._ready = Interrupted()
    try:
        yield
    finally:
        pool._ready = kept


def test_a_connection_that_somebody_took_meanwhile_is_not_taken_from_him(
    open_store: OpenStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(own_pool, "KEPT_FOR", 3600.0)
    pool = open_store(min_size=1, max_size=2, timeout=5)._pools.current()
    assert isinstance(pool, OwnPool)
    taken: list[OwnConnection] = []
    one = pool.getconn(5)
    with (
        _interrupted_as_it_lies_ready(pool, lambda: taken.append(pool.getconn(5))),
        pytest.raises(KeyboardInterrupt),
    ):
        pool.putconn(one)
    assert taken == [one]
    other = pool.getconn(5)
    assert other is not one
    assert one.execute("SELECT 1").fetchone() == (1,)
    for connection in (one, other):
        pool.putconn(connection)


def test_whoever_waits_is_served_though_the_return_was_interrupted(
    open_store: OpenStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(own_pool, "KEPT_FOR", 3600.0)
    pool = open_store(min_size=1, max_size=1, timeout=5)._pools.current()
    assert isinstance(pool, OwnPool)
    one = pool.getconn(5)
    with ThreadPoolExecutor(1) as threads:
        asked: list[Future[OwnConnection]] = []

        def ask() -> None:
            # It has looked at what lies ready before the connection was laid there.
            hidden, pool._ready = pool._ready, deque()
            asked.append(threads.submit(pool.getconn, 60))
            wait_until(lambda: pool.get_stats()["requests_waiting"] == 1)
            pool._ready = hidden

        with _interrupted_as_it_lies_ready(pool, ask), pytest.raises(KeyboardInterrupt):
            pool.putconn(one)
        assert asked[0].result(5) is one
        pool.putconn(one)


def test_an_interrupt_as_the_wait_begins_loses_no_connection(
    open_store: OpenStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ctrl-C while the thread that waits for the main thread is being started."""
    store = open_store(min_size=1, max_size=1, timeout=5)
    start = threading.Thread.start

    def interrupted(thread: threading.Thread) -> None:
        start(thread)
        if thread.name == "alkstore-checkout":
            raise KeyboardInterrupt

    with ThreadPoolExecutor(1) as threads:
        out, back = threading.Event(), threading.Event()

        def hold_long() -> None:
            with store.transaction():
                out.set()
                assert back.wait(10)

        done = threads.submit(hold_long)
        assert out.wait(10)
        with monkeypatch.context() as patched:
            patched.setattr(threading.Thread, "start", interrupted)
            with pytest.raises(KeyboardInterrupt):
                store.get_job(5)
        monkeypatch.setattr(own_pool, "KEPT_FOR", 0.0)  # it goes back to the pool
        back.set()
        done.result(10)
    assert store.get_job(5) is None


def test_an_interrupt_as_the_watch_begins_leaves_none_that_sees_nothing(
    open_store: OpenStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever waited for an answer with it would wait for ever."""
    pool = open_store(min_size=1, max_size=1, timeout=5)._pools.current()
    assert isinstance(pool, OwnPool)
    own = pool.getconn(5)

    def interrupted(_: psycopg.Connection[Any]) -> int:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(OwnConnection, "fileno", interrupted)
        with pytest.raises(KeyboardInterrupt):
            own.is_silent()
    assert own.is_silent()
    own.pgconn.send_query(b"SELECT 1")
    wait_until(lambda: not own.is_silent())
    assert await_answer(own, own.poll).get_value(0, 0) == b"1"
    pool.putconn(own)


def test_what_somebody_waits_for_is_handed_over_where_no_signal_is_heard(
    open_store: OpenStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = open_store(min_size=1, max_size=1, timeout=5)
    pool = store._pools.current()
    assert store.get_job(5) is None
    handed_over_by: list[str] = []
    putconn = ConnectionPool.putconn

    def seen(self: ConnectionPool, connection: psycopg.Connection) -> None:
        handed_over_by.append(threading.current_thread().name)
        putconn(self, connection)

    monkeypatch.setattr(ConnectionPool, "putconn", seen)
    with ThreadPoolExecutor(1) as threads:
        with store.transaction():
            waiting = threads.submit(store.get_job, 5)
            wait_until(lambda: pool.get_stats()["requests_waiting"] == 1)
        assert waiting.result(10) is None
    assert handed_over_by == ["alkstore-return"]


def test_a_wait_ends_though_the_thread_that_waits_is_gone(
    open_store: OpenStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in the child of a fork in the middle of it."""
    store = open_store(min_size=1, max_size=1, timeout=0.1)
    monkeypatch.setattr(own_pool, "_LONGER", 0.1)
    with store.transaction(), monkeypatch.context() as patched:
        patched.setattr(Errand, "_run", lambda _: None)
        with pytest.raises(DatabaseError, match="no connection was fetched"):
            store.get_job(5)
    assert store.get_job(5) is None
