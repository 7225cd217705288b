"""The answer to a statement: what may come instead of it, and with it."""

from __future__ import annotations

import ctypes
import errno
import os
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import pairwise
from typing import Any

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import make_conninfo

import alkstore_postgres
from alkstore import DatabaseError
from alkstore_postgres import PostgresStore
from alkstore_postgres.database import answer, database, own_connection
from alkstore_postgres.database.own_connection import OwnConnection
from alkstore_postgres.database.own_pool import OwnPool
from tests.support.proxy import Proxy
from tests.support.timing import Stopwatch
from tests.support.waiting import wait_until

OpenStore = Callable[..., PostgresStore]

LONG = b"SELECT pg_catalog.pg_sleep(30)"
RUNNING = "SELECT count(*) FROM pg_stat_activity WHERE application_name = %s AND state = 'active'"


@pytest.fixture
def one_connection(open_store: OpenStore, conninfo: str, schema: str) -> Iterator[PostgresStore]:
    """A store over a single connection, which the server knows by the schema's name."""
    open_store().close()
    url = make_conninfo(conninfo, application_name=schema)
    with alkstore_postgres.open(url, schema=schema, min_size=1, max_size=1, timeout=5) as store:
        yield store


@pytest.fixture
def runs(connection: psycopg.Connection[Any], schema: str) -> Callable[[], bool]:
    """Tell whether a statement of that store runs on the server."""
    return lambda: connection.execute(RUNNING, [schema]).fetchone() != (0,)


@contextmanager
def once(condition: Callable[[], object], act: Callable[[], object]) -> Iterator[None]:
    """Act, in a thread, as soon as the condition holds."""

    def wait_and_act() -> None:
        wait_until(condition)
        act()

    thread = threading.Thread(target=wait_and_act)
    thread.start()
    try:
        yield
    finally:
        thread.join()


def press_ctrl_c() -> None:
    os.kill(os.getpid(), signal.SIGINT)


def backend(store: PostgresStore) -> int:
    pid: int = store._parts.database.fetch_value(b"SELECT pg_catalog.pg_backend_pid()")
    return pid


def test_ctrl_c_cancels_the_statement_and_costs_no_connection(
    one_connection: PostgresStore, runs: Callable[[], bool]
) -> None:
    before = backend(one_connection)
    with Stopwatch() as watch, once(runs, press_ctrl_c), pytest.raises(KeyboardInterrupt):
        one_connection._parts.database.fetch_value(LONG)
    assert watch.seconds < answer.CANCEL_LIMIT
    assert not runs()
    assert backend(one_connection) == before


def test_ctrl_c_between_sending_and_waiting_cancels_the_statement_too(
    one_connection: PostgresStore, runs: Callable[[], bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    before = backend(one_connection)

    def interrupted(*_: object) -> None:
        wait_until(runs)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(own_connection, "await_answer", interrupted)
        with pytest.raises(KeyboardInterrupt):
            one_connection._parts.database.fetch_value(LONG)
    assert not runs()
    assert backend(one_connection) == before


def test_a_request_to_cancel_that_the_server_has_forgotten_is_repeated(
    one_connection: PostgresStore, runs: Callable[[], bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It does so with one that comes between two messages of a statement."""
    asked: list[None] = []
    cancel_safe = OwnConnection.cancel_safe

    def forgotten_once(self: OwnConnection, *, timeout: float) -> None:
        asked.append(None)
        if len(asked) > 1:
            cancel_safe(self, timeout=timeout)

    monkeypatch.setattr(OwnConnection, "cancel_safe", forgotten_once)
    before = backend(one_connection)
    with once(runs, press_ctrl_c), pytest.raises(KeyboardInterrupt):
        one_connection._parts.database.fetch_value(LONG)
    assert len(asked) == 2
    assert not runs()
    assert backend(one_connection) == before


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[None]:
    """One entry for each request to cancel, none of which is sent."""
    asked: list[None] = []
    monkeypatch.setattr(OwnConnection, "cancel_safe", lambda *_, **__: asked.append(None))
    return asked


def test_ctrl_c_when_the_answer_has_come_asks_for_nothing(
    one_connection: PostgresStore, asked: list[None], monkeypatch: pytest.MonkeyPatch
) -> None:
    before = backend(one_connection)

    def interrupted(connection: OwnConnection, *_: object) -> None:
        assert select.select([connection], [], [], 10)[0]
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(own_connection, "await_answer", interrupted)
        with pytest.raises(KeyboardInterrupt):
            one_connection._parts.database.fetch_value(b"SELECT 1")
    assert asked == []
    assert backend(one_connection) == before


def test_ctrl_c_before_the_statement_was_sent_as_a_whole_closes_the_connection_at_once(
    proxy: Proxy,
    open_store: OpenStore,
    schema: str,
    asked: list[None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The server would forget each request: it runs nothing that it could cancel."""
    open_store().close()
    url = proxy.conninfo
    with alkstore_postgres.open(url, schema=schema, min_size=1, max_size=1, timeout=5) as store:
        before = backend(store)
        proxy.stall()

        def interrupted(*_: object) -> None:
            raise KeyboardInterrupt

        with monkeypatch.context() as patch:
            patch.setattr(own_connection, "await_answer", interrupted)
            with pytest.raises(KeyboardInterrupt):
                store._parts.database.fetch_value(
                    b"SELECT pg_catalog.length(%(content)s::pg_catalog.bytea)",
                    {"content": b"x" * 30_000_000},
                )
        assert asked == []
        proxy.resume()
        assert backend(store) != before


def test_a_request_to_cancel_that_fails_leaves_the_ctrl_c(
    one_connection: PostgresStore, runs: Callable[[], bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(*_: object, **__: object) -> None:
        raise OSError(errno.EMFILE, "no more descriptors")

    monkeypatch.setattr(OwnConnection, "cancel_safe", failing)
    before = backend(one_connection)
    with once(runs, press_ctrl_c), pytest.raises(KeyboardInterrupt):
        one_connection._parts.database.fetch_value(LONG)
    assert backend(one_connection) != before


def test_ctrl_c_on_a_silent_way_closes_the_connection(
    proxy: Proxy,
    open_store: OpenStore,
    runs: Callable[[], bool],
    schema: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    open_store().close()
    monkeypatch.setattr(answer, "CANCEL_LIMIT", 0.5)
    url = make_conninfo(proxy.conninfo, application_name=schema)
    with alkstore_postgres.open(url, schema=schema, min_size=1, max_size=1, timeout=5) as store:
        before = backend(store)

        def fall_silent() -> None:
            proxy.stall()
            press_ctrl_c()

        with Stopwatch() as watch, once(runs, fall_silent), pytest.raises(KeyboardInterrupt):
            store._parts.database.fetch_value(LONG)
        assert watch.seconds < 10
        proxy.resume()
        assert backend(store) != before


def test_a_second_ctrl_c_closes_the_connection(
    one_connection: PostgresStore, runs: Callable[[], bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    before = backend(one_connection)

    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(OwnConnection, "cancel_safe", interrupted)
    with once(runs, press_ctrl_c), pytest.raises(KeyboardInterrupt):
        one_connection._parts.database.fetch_value(LONG)
    assert backend(one_connection) != before


def test_ctrl_c_does_not_wait_for_a_statement_that_cannot_be_cancelled(
    one_connection: PostgresStore, runs: Callable[[], bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As behind a pooler that passes no request to cancel on."""
    monkeypatch.setattr(answer, "CANCEL_LIMIT", 0.5)
    monkeypatch.setattr(OwnConnection, "cancel_safe", lambda *_, **__: None)
    before = backend(one_connection)
    with Stopwatch() as watch, once(runs, press_ctrl_c), pytest.raises(KeyboardInterrupt):
        one_connection._parts.database.fetch_value(LONG)
    assert watch.seconds < 10
    assert backend(one_connection) != before


def test_what_fails_at_the_commit_is_told_though_the_rows_have_come(
    one_connection: PostgresStore, connection: psycopg.Connection[Any], schema: str
) -> None:
    places = {"late": sql.Identifier(schema, "late"), "jobs": sql.Identifier(schema, "jobs")}
    for statement in (
        (
            "CREATE FUNCTION {late}() RETURNS trigger LANGUAGE plpgsql AS"
            " $$ BEGIN RAISE SQLSTATE 'XX777'; END $$"
        ),
        (
            "CREATE CONSTRAINT TRIGGER late AFTER INSERT ON {jobs}"
            " DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION {late}()"
        ),
    ):
        connection.execute(sql.SQL(statement).format(**places))
    with pytest.raises(DatabaseError) as caught:
        one_connection.queue("q").enqueue(1)
    assert caught.value.sqlstate == "XX777"


def test_an_exception_that_is_set_in_a_waiting_thread_is_heard_there(
    one_connection: PostgresStore, runs: Callable[[], bool]
) -> None:
    """Time limits of applications are made so."""
    raised: list[BaseException] = []

    def wait() -> None:
        try:
            one_connection._parts.database.fetch_value(LONG)
        except TimeoutError as error:
            raised.append(error)

    thread = threading.Thread(target=wait)
    thread.start()
    wait_until(runs)
    assert thread.ident is not None
    ctypes.pythonapi.PyThreadState_SetAsyncExc(
        ctypes.c_ulong(thread.ident), ctypes.py_object(TimeoutError)
    )
    thread.join(10)
    assert raised
    # What still waits for an answer is nobody else's.
    assert one_connection.queue("q").size() == 0


def test_the_end_of_the_session_is_told_as_the_server_tells_it(
    one_connection: PostgresStore,
    runs: Callable[[], bool],
    connection: psycopg.Connection[Any],
    schema: str,
) -> None:
    def terminate() -> None:
        connection.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = %s",
            [schema],
        )

    with once(runs, terminate), pytest.raises(DatabaseError, match="terminat") as caught:
        one_connection._parts.database.fetch_value(LONG)
    assert caught.value.sqlstate == "57P01"
    assert caught.value.retryable


def test_rows_without_the_end_of_the_statement_are_no_answer(
    proxy: Proxy, open_store: OpenStore, schema: str
) -> None:
    """The server has sent them, and has not said that it is committed."""
    open_store().close()
    with alkstore_postgres.open(proxy.conninfo, schema=schema, min_size=1, timeout=5) as store:
        database = store._parts.database
        for _ in range(10):  # it is prepared on the way
            assert database.fetch_value(b"SELECT 1") == 1
        proxy.cuts_before = b"Z"
        with pytest.raises(DatabaseError) as caught:
            database.fetch_value(b"SELECT 1")
        proxy.cuts_before = None
        assert caught.value.retryable
        assert database.fetch_value(b"SELECT 1") == 1


@pytest.mark.parametrize("size", [1, 100_000, 30_000_000])
def test_what_does_not_come_in_one_piece_is_waited_for(
    one_connection: PostgresStore, size: int
) -> None:
    database = one_connection._parts.database
    content = b"x" * size
    for _ in range(2):
        back = database.fetch_value(b"SELECT %(content)s::pg_catalog.bytea", {"content": content})
        assert back == content
    rows = database.fetch_all(
        b"SELECT pg_catalog.generate_series(1, %(size)s::pg_catalog.int4)",
        {"size": size // 100},
    )
    assert len(rows) == size // 100


def test_dead_connections_are_waited_for_once_in_all(
    one_connection: PostgresStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A call has one limit for its wait, however many connections it is handed."""
    allowed: list[float] = []
    getconn = OwnPool.getconn

    def slow(self: OwnPool, timeout: float | None = None) -> OwnConnection:
        assert timeout is not None
        allowed.append(timeout)
        time.sleep(0.2)
        return getconn(self, timeout)

    monkeypatch.setattr(OwnPool, "getconn", slow)
    deaths = [True, True]
    monkeypatch.setattr(OwnConnection, "is_silent", lambda _: False)
    monkeypatch.setattr(database, "is_dead", lambda _: bool(deaths and deaths.pop()))
    assert one_connection.queue("q").size() == 0
    assert len(allowed) == 3
    assert all(later <= sooner - 0.2 for sooner, later in pairwise(allowed))


def test_a_notification_that_comes_with_an_answer_is_handed_on(
    one_connection: PostgresStore, connection: psycopg.Connection[Any]
) -> None:
    """An application may have the session of a borrowed connection listen."""
    heard: list[str] = []
    database = one_connection._parts.database
    with database.connection() as own:
        own.add_notify_handler(lambda notification: heard.append(notification.payload))
    database.execute(b"LISTEN news")
    for payload in ("one", "two"):
        connection.execute("SELECT pg_notify('news', %s)", [payload])
    assert one_connection.queue("q").size() == 0
    assert heard == ["one", "two"]


def test_connections_of_another_kind_are_used_as_they_are(
    monkeypatch: pytest.MonkeyPatch, open_store: OpenStore
) -> None:
    """A program that traces may have put its own in the place of psycopg's `connect`."""
    monkeypatch.setattr(psycopg.Connection, "connect", psycopg.Connection.connect)
    store = open_store()
    queue = store.queue("q")
    ids = [queue.enqueue(number) for number in range(8)]
    assert [job.id for job in queue.claim("w", 10)] == ids
    with store._parts.database.connection() as connection:
        assert type(connection) is psycopg.Connection


def test_where_there_is_no_poll_psycopg_waits(
    monkeypatch: pytest.MonkeyPatch, open_store: OpenStore
) -> None:
    monkeypatch.setattr(OwnConnection, "watch", lambda _: None)
    queue = open_store().queue("q")
    ids = [queue.enqueue(number) for number in range(8)]
    assert [job.id for job in queue.claim("w", 10)] == ids


@pytest.mark.parametrize("way", ["wait_selector", "wait_poll"])
def test_psycopg_waits_as_it_is_told(
    store: PostgresStore, conninfo: str, schema: str, way: str
) -> None:
    """By a poll made for each wait where gevent has its own in the place of Python's."""
    program = f"""if True:
        import alkstore_postgres
        from alkstore_postgres.database import answer
        from psycopg import waiting
        assert waiting.wait is waiting.{way}
        answer._read = None
        with alkstore_postgres.open({conninfo!r}, schema={schema!r}) as store:
            for number in range(8):
                store.queue("q").enqueue(number)
    """
    told = {**os.environ, "PSYCOPG_WAIT_FUNC": way}
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60, env=told)
    assert store.queue("q").size() == 8
