"""A lent pool is used as it is and handed back as it was, whatever its kind."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import psycopg
import psycopg_pool
import pytest
from psycopg.adapt import Dumper, Loader
from psycopg.rows import dict_row, scalar_row
from psycopg_pool import ConnectionPool, NullConnectionPool

import alkstore
from alkstore._typing import override
from alkstore_postgres import PostgresStore
from tests.support.timing import Stopwatch
from tests.support.waiting import wait_until

AnyPool = ConnectionPool[Any]


class BrokenDumper(Dumper):
    @override
    def dump(self, obj: Any) -> bytes:
        raise AssertionError(obj)


class BrokenLoader(Loader):
    @override
    def load(self, data: Any) -> Any:
        raise AssertionError(data)


def spoil(connection: psycopg.Connection[Any]) -> None:
    for kind in (str, int, float, bool, bytes, type(None)):
        connection.adapters.register_dumper(kind, BrokenDumper)
    for name in ("int8", "int4", "text", "bytea", "timestamptz", "float8", "bool", "uuid"):
        connection.adapters.register_loader(name, BrokenLoader)


def serializable(connection: psycopg.Connection[Any]) -> None:
    connection.isolation_level = psycopg.IsolationLevel.SERIALIZABLE
    connection.deferrable = True


def read_only(connection: psycopg.Connection[Any]) -> None:
    connection.read_only = True


KINDS: dict[str, dict[str, Any]] = {
    "plain": {},
    "autocommit": {"kwargs": {"autocommit": True}},
    "dictionaries": {"kwargs": {"row_factory": dict_row}},
    "scalars": {"kwargs": {"row_factory": scalar_row, "autocommit": True}},
    "client cursors": {"kwargs": {"cursor_factory": psycopg.ClientCursor}},
    "raw cursors": {"kwargs": {"cursor_factory": psycopg.RawCursor}},
    "everything prepared": {"kwargs": {"prepare_threshold": 0}},
    "nothing prepared": {"kwargs": {"prepare_threshold": None}},
    "serializable": {"configure": serializable},
    "read only": {"configure": read_only},
    "serializable by default": {
        "kwargs": {"options": "-c default_transaction_isolation=serializable"}
    },
    "far away": {"kwargs": {"options": "-c TimeZone=Pacific/Auckland -c DateStyle=German"}},
    "broken adapters": {"configure": spoil},
    "one connection": {"max_size": 1},
    "no standing connections": {"min_size": 0, "max_size": 2},
    "checked": {"check": ConnectionPool.check_connection},
}


def make(conninfo: str, kind: str) -> AnyPool:
    options = {"min_size": 1, "max_size": 2, **KINDS[kind]}
    return ConnectionPool(conninfo, open=True, **options)


@pytest.mark.parametrize("kind", KINDS)
def test_everything_works_over_it_and_it_comes_back_as_it_was(
    conninfo: str, schema: str, kind: str
) -> None:
    with make(conninfo, kind) as pool:
        before = look(pool)
        store = PostgresStore(pool, schema)
        live(store)
        store.close()
        assert not pool.closed
        assert look(pool) == before


def test_a_pool_without_standing_connections_will_do(conninfo: str, schema: str) -> None:
    with NullConnectionPool(conninfo, max_size=2, open=True) as pool:
        store = PostgresStore(pool, schema)
        live(store)
        store.close()


def look(pool: AnyPool) -> dict[str, Any]:
    """Return the attributes and the settings of the pool's connections."""
    with pool.connection() as connection:
        plain = psycopg.Cursor(connection, row_factory=psycopg.rows.tuple_row)
        plain.adapters.register_loader("text", psycopg.types.string.TextLoader)
        plain.execute(b"SELECT name, setting FROM pg_settings ORDER BY name", prepare=False)
        settings: dict[str, str] = dict(plain.fetchall())
        settings.pop("transaction_read_only")
        return {
            "autocommit": connection.autocommit,
            "isolation": connection.isolation_level,
            "read_only": connection.read_only,
            "deferrable": connection.deferrable,
            "row factory": connection.row_factory,
            "cursor factory": connection.cursor_factory,
            "threshold": connection.prepare_threshold,
            "settings": settings,
        }


def live(store: PostgresStore) -> None:
    queue = store.queue("mail")
    queue.enqueue_many(["é", 2, 3, 4])
    for _ in range(6):
        queue.stats()
    first, second, third, fourth = queue.claim("w", 4)
    assert [first.payload, first.enqueued_at.utcoffset()] == ["é", timedelta(0)]
    assert first.ack()
    assert second.retry("later")
    assert third.fail("no")
    assert fourth.release()
    assert queue.dead()[0].error == "no"
    with store.lock("lock", ttl=5) as lock:
        assert lock.renew()
    store.schedule("s", "@every 1h", "mail", 1)
    store.run_now("s")
    with store.transaction() as own:
        store.outbox_enqueue_tx(own, "events", 1)
    assert store.outbox("events").run_once("w", lambda _: None)
    runner = store.start_worker("mail", lambda _: None)
    wait_until(lambda: queue.stats().ready == 0)
    assert runner.stop(5)


def test_a_handler_may_use_the_only_connection(conninfo: str, schema: str) -> None:
    """Field case B85: a worker holds no connection while its handler runs."""
    with ConnectionPool(conninfo, min_size=1, max_size=1, open=True) as pool:
        store = PostgresStore(pool, schema, timeout=5)
        done = threading.Event()

        def handle(job: alkstore.JobHandle) -> None:
            with pool.connection() as own:
                store.enqueue_tx(own, "next", job.payload)
            store.queue("next").enqueue(job.payload)
            done.set()

        runner = store.start_worker("mail", handle)
        store.queue("mail").enqueue(1)
        assert done.wait(10)
        assert runner.stop(5)
        assert store.queue("next").size() == 2
        store.close()


def test_a_call_that_gets_no_connection_is_told_in_time(conninfo: str, schema: str) -> None:
    with ConnectionPool(conninfo, min_size=1, max_size=1, open=True) as pool:
        PostgresStore(pool, schema).close()  # there is a connection, and the schema
        store = PostgresStore(pool, schema, timeout=0.3)
        with pool.connection():
            begun = time.monotonic()
            with (
                Stopwatch() as watch,
                pytest.raises(alkstore.DatabaseError, match="in time") as caught,
            ):
                store.queue("mail").enqueue(1)
            assert time.monotonic() - begun > 0.2
            assert watch.seconds < 2
        assert (caught.value.retryable, caught.value.sqlstate) == (True, None)
        store.queue("mail").enqueue(1)
        store.close()


def failing(_: psycopg.Connection[Any]) -> None:
    raise ZeroDivisionError


@pytest.mark.parametrize("callback", ["configure", "check"])
def test_a_pool_whose_callback_fails_ends_in_a_time_out(
    conninfo: str, schema: str, callback: str
) -> None:
    """Field case B84."""
    options: dict[str, Callable[..., None]] = {callback: failing}
    with ConnectionPool(conninfo, min_size=1, open=True, timeout=1, **options) as pool:  # type: ignore[arg-type]
        with Stopwatch() as watch, pytest.raises(alkstore.DatabaseError, match="in time"):
            PostgresStore(pool, schema, timeout=0.5)
        assert watch.seconds < 3


def test_a_pool_whose_reset_fails_goes_on_with_new_connections(conninfo: str, schema: str) -> None:
    with ConnectionPool(conninfo, min_size=1, reset=failing, open=True) as pool:
        store = PostgresStore(pool, schema)
        assert store.queue("mail").enqueue(1) < store.queue("mail").enqueue(2)
        store.close()


def test_a_pool_that_is_not_open_is_told(conninfo: str, schema: str) -> None:
    pool = ConnectionPool(conninfo, open=False)
    with pytest.raises(alkstore.InvalidConnection, match="is not open"):
        PostgresStore(pool, schema)
    pool.open()
    store = PostgresStore(pool, schema)
    runner = store.start_worker("mail", lambda _: None)
    pool.close()
    with pytest.raises(alkstore.StoreClosed, match="the pool of the store is closed"):
        store.queue("mail").enqueue(1)
    assert runner.join(10), "there is nothing left to do for it"
    store.close()
    with pytest.raises(alkstore.InvalidConnection, match="is not open"):
        PostgresStore(pool, schema)


def test_a_pool_that_lets_nobody_wait_is_told_as_busy(conninfo: str, schema: str) -> None:
    with ConnectionPool(conninfo, min_size=1, max_size=1, max_waiting=1, open=True) as pool:
        store = PostgresStore(pool, schema, timeout=20)  # longer than a machine stands still
        with pool.connection():
            waiter = threading.Thread(target=lambda: attempt(store))
            waiter.start()
            wait_until(lambda: pool.get_stats().get("requests_waiting") == 1)
            with pytest.raises(alkstore.DatabaseError) as caught:
                store.queue("mail").enqueue(1)
            assert caught.value.retryable
        waiter.join()
        store.close()


def attempt(store: PostgresStore) -> None:
    store.queue("mail").size()


@pytest.mark.parametrize("encoding", ["latin1", "SQL_ASCII", "EUC_KR"])
def test_a_client_encoding_without_every_character_is_refused_before_anything_is_stored(
    conninfo: str, connection: psycopg.Connection[Any], schema: str, encoding: str
) -> None:
    kwargs = {"client_encoding": encoding}
    with ConnectionPool(conninfo, min_size=1, kwargs=kwargs, open=True) as pool:
        with pytest.raises(alkstore.InvalidConnection, match=f"{encoding.upper()}.*UTF8"):
            PostgresStore(pool, schema)
        with pool.connection() as one:
            assert one.info.parameter_status("client_encoding") == encoding.upper()
    found = connection.execute("SELECT to_regnamespace(quote_ident(%s))", [schema]).fetchone()
    assert found == (None,)


def test_a_connection_whose_client_encoding_was_changed_is_refused_and_goes_back(
    conninfo: str, schema: str
) -> None:
    with ConnectionPool(conninfo, min_size=1, max_size=1, open=True) as pool:
        store = PostgresStore(pool, schema)
        with pool.connection() as one:
            one.execute("SET client_encoding = 'LATIN1'")
        for call in (lambda: store.queue("é").enqueue(1), lambda: store.transaction().__enter__()):
            with pytest.raises(alkstore.InvalidConnection, match="LATIN1"):
                call()
        with pool.connection(timeout=10) as one:
            one.execute("SET client_encoding = 'UTF8'")
        assert store.queue("字").enqueue(1)
        store.close()


@pytest.mark.parametrize("given", [None, "postgresql://", Ellipsis, ConnectionPool], ids=repr)
def test_anything_else_is_a_type_error(given: Any) -> None:
    with pytest.raises(TypeError, match="ConnectionPool"):
        PostgresStore(given)


def test_an_asynchronous_pool_is_a_type_error(conninfo: str) -> None:
    async def try_it() -> None:
        async with psycopg_pool.AsyncConnectionPool(
            conninfo, max_size=1, min_size=0, open=False
        ) as pool:
            with pytest.raises(TypeError, match="AsyncConnectionPool"):
                PostgresStore(pool)  # type: ignore[arg-type]

    asyncio.run(try_it())


def test_a_connection_left_in_the_middle_of_something_is_not_handed_back(
    conninfo: str, schema: str
) -> None:
    with ConnectionPool(conninfo, min_size=1, max_size=1, open=True) as pool:
        store = PostgresStore(pool, schema)
        with store._parts.database.connection() as connection:
            connection.execute("BEGIN")
        with pool.connection() as connection:
            assert connection.autocommit is False
            assert connection.info.transaction_status == psycopg.pq.TransactionStatus.IDLE
        store.close()
