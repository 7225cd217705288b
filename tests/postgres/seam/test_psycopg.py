"""The seam on connections of psycopg: what the application has set plays no part."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import psycopg
import psycopg_pool
import pytest
from psycopg.adapt import Dumper, Loader
from psycopg.rows import dict_row, scalar_row

import alkstore
from alkstore._typing import override
from alkstore_postgres import PostgresStore


class BrokenDumper(Dumper):
    @override
    def dump(self, obj: Any) -> bytes:  # noqa: ARG002 - never called
        raise AssertionError


class BrokenLoader(Loader):
    @override
    def load(self, data: Any) -> Any:  # noqa: ARG002 - never called
        raise AssertionError


def spoil(connection: psycopg.Connection[Any]) -> None:
    """Make every type of the application's own cursors unusable."""
    for kind in (str, int, float, bool, bytes, type(None)):
        connection.adapters.register_dumper(kind, BrokenDumper)
    for name in ("int8", "text", "bytea", "timestamptz"):
        connection.adapters.register_loader(name, BrokenLoader)


SETTINGS: dict[str, dict[str, Any]] = {
    "dictionaries": {"row_factory": dict_row},
    "scalars": {"row_factory": scalar_row},
    "client cursors": {"cursor_factory": psycopg.ClientCursor},
    "raw cursors": {"cursor_factory": psycopg.RawCursor},
    "everything prepared": {"prepare_threshold": 0},
    "nothing prepared": {"prepare_threshold": None},
    "LATIN1": {"client_encoding": "latin1"},
}


@pytest.mark.parametrize("setting", SETTINGS)
def test_the_applications_settings_have_no_influence_and_stay(
    store: PostgresStore, conninfo: str, setting: str
) -> None:
    with psycopg.connect(conninfo, **SETTINGS[setting]) as connection:
        spoil(connection)
        cursor = connection.cursor()
        before = (connection.row_factory, connection.cursor_factory, connection.prepare_threshold)
        ids = [store.enqueue_tx(tx, "mail", "x") for tx in [connection, cursor] * 6]
        store.notify_tx(cursor, "é")
        assert before == (
            connection.row_factory,
            connection.cursor_factory,
            connection.prepare_threshold,
        )
        plain = psycopg.Cursor(connection, row_factory=psycopg.rows.tuple_row)
        query = b"SELECT count(*)::int4 FROM pg_prepared_statements"
        plain.execute(query, prepare=False)
        assert plain.fetchone() == (0,)
    assert all(store.get_job(one) for one in ids)


TEXT = "\\ ' \" %s %% {} é 字 🦉 표"


@pytest.mark.parametrize("encoding", ["latin1", "SQL_ASCII", "SJIS", "EUC_KR", "WIN1251", "UTF8"])
def test_a_client_encoding_changes_no_text(
    open_store: Callable[..., PostgresStore], conninfo: str, schema: str, encoding: str
) -> None:
    named = f'{schema} \\ "%s" é 字 🦉'[-40:]
    store = open_store(schema=named)
    try:
        with store.listen(TEXT) as listener:
            with psycopg.connect(conninfo, client_encoding=encoding) as connection:
                job_id = store.enqueue_tx(connection, TEXT, TEXT, delay=0.25, priority=-3)
                message = store.outbox_enqueue_tx(connection, TEXT, TEXT, expires=100)
                store.notify_tx(connection, TEXT)
                assert connection.info.parameter_status("client_encoding") == encoding.upper()
            assert listener.wait(10) == alkstore.Wake(TEXT)
        job, sent = store.get_job(job_id), store.get_job(message)
        assert job is not None
        assert sent is not None
        assert (job.queue, job.payload, job.priority) == (TEXT, TEXT, -3)
        assert (job.run_at - job.enqueued_at).total_seconds() == 0.25
        assert (sent.queue, sent.payload) == (f"__alkstore_outbox:{TEXT}", TEXT)
    finally:
        with psycopg.connect(conninfo, autocommit=True) as connection:
            connection.execute(
                psycopg.sql.SQL("DROP SCHEMA {} CASCADE").format(psycopg.sql.Identifier(named))
            )


def test_a_failure_under_another_client_encoding_is_told(
    store: PostgresStore, conninfo: str, schema: str
) -> None:
    with psycopg.connect(conninfo, client_encoding="latin1") as connection:
        connection.execute(
            psycopg.sql.SQL("DROP TABLE {}").format(psycopg.sql.Identifier(schema, "jobs"))
        )
        with pytest.raises(alkstore.SchemaOutdated):
            store.enqueue_tx(connection, "字", 1)
        connection.rollback()
        assert store.enqueue_tx(connection, "字", 1)


def test_the_callers_cursor_keeps_its_result(store: PostgresStore, conninfo: str) -> None:
    with psycopg.connect(conninfo) as connection, connection.cursor() as cursor:
        cursor.execute("SELECT generate_series(1, 3)")
        assert cursor.fetchone() == (1,)
        store.enqueue_tx(cursor, "mail", 1)
        assert cursor.fetchall() == [(2,), (3,)]
        with connection.cursor("on the server") as named:
            named.execute("SELECT generate_series(1, 3)")
            assert named.fetchone() == (1,)
            store.enqueue_tx(named, "mail", 2)
            assert named.fetchall() == [(2,), (3,)]
    assert store.queue("mail").size() == 2


def test_autocommit_is_refused_outside_a_transaction_and_fine_inside(
    store: PostgresStore, conninfo: str
) -> None:
    with psycopg.connect(conninfo, autocommit=True) as connection:
        for call in calls(store, connection):
            with pytest.raises(alkstore.NoTransaction, match="autocommit"):
                call()
        with connection.transaction():
            store.enqueue_tx(connection, "mail", 1)
        connection.execute("BEGIN")
        store.enqueue_tx(connection, "mail", 2)
        connection.execute("COMMIT")
    assert store.queue("mail").size() == 2


def calls(store: PostgresStore, tx: Any) -> list[Callable[[], object]]:
    return [
        lambda: store.enqueue_tx(tx, "mail", 1),
        lambda: store.outbox_enqueue_tx(tx, "mail", 1),
        lambda: store.notify_tx(tx, "mail"),
    ]


@pytest.mark.parametrize("tx", [None, "BEGIN", 42, Ellipsis, psycopg.Connection], ids=repr)
def test_anything_else_is_a_type_error_that_says_what_is_allowed(
    store: PostgresStore, tx: object
) -> None:
    for call in calls(store, tx):
        with pytest.raises(TypeError, match=r"tx must be a psycopg .* Django"):
            call()


def test_a_pool_or_a_store_is_no_transaction(
    store: PostgresStore, pool: psycopg_pool.ConnectionPool[Any]
) -> None:
    for tx in (pool, store, store.transaction()):
        with pytest.raises(TypeError):
            store.enqueue_tx(tx, "mail", 1)


def test_asynchronous_connections_are_refused_by_name(store: PostgresStore, conninfo: str) -> None:
    async def attempt() -> None:
        async with await psycopg.AsyncConnection.connect(conninfo) as connection:
            for tx in (connection, connection.cursor()):
                with pytest.raises(TypeError, match="asynchronous"):
                    store.enqueue_tx(tx, "mail", 1)
            await connection.execute("SELECT 1")

    asyncio.run(attempt())


def test_autocommit_is_refused_in_a_pipeline_that_holds_something_back(
    store: PostgresStore, conninfo: str
) -> None:
    with psycopg.connect(conninfo, autocommit=True) as connection, connection.pipeline():
        connection.execute("SELECT 1")
        with pytest.raises(alkstore.NoTransaction):
            store.enqueue_tx(connection, "emails", 1)
        with connection.transaction():
            store.enqueue_tx(connection, "emails", 2)
    (job,) = store.queue("emails").claim("w", 5)
    assert job.payload == 2


def test_a_pipeline_carries_it(store: PostgresStore, conninfo: str) -> None:
    with psycopg.connect(conninfo) as connection, connection.pipeline():
        connection.execute("SELECT 1")
        job_id = store.enqueue_tx(connection, "mail", 1)
        store.notify_tx(connection, "mail")
    assert store.get_job(job_id) is not None


def test_a_hostile_search_path_catches_nothing(
    store: PostgresStore, conninfo: str, schema: str
) -> None:
    """Field case B99; the statements at large: see tests/postgres/database."""
    with psycopg.connect(conninfo) as connection:
        connection.execute("SET search_path = ''")
        job_id = store.enqueue_tx(connection, "mail", 1)
    assert store.get_job(job_id) is not None


@pytest.mark.parametrize("size", [1, 2])
def test_a_pool_as_small_as_one_connection_is_enough(conninfo: str, schema: str, size: int) -> None:
    """Field case B85: with the caller's connection, no other one is needed."""
    with psycopg_pool.ConnectionPool(conninfo, min_size=1, max_size=size, open=True) as pool:
        PostgresStore(pool, schema).close()  # there is a connection, and the schema
        store = PostgresStore(pool, schema, timeout=0.5)
        with pool.connection() as first, pool.connection() if size == 2 else first:
            store.enqueue_tx(first, "mail", 1)
            store.outbox_enqueue_tx(first, "mail", 1)
            store.notify_tx(first, "mail")
            with pytest.raises(alkstore.DatabaseError, match="in time") as caught:
                store.queue("mail").size()
            assert caught.value.retryable
        with store.transaction() as own:
            store.enqueue_tx(own, "mail", 2)
        assert store.queue("mail").size() == 2
        store.close()


def test_the_stores_own_transaction_commits_or_rolls_back(store: PostgresStore) -> None:
    with store.transaction() as connection:
        kept = store.enqueue_tx(connection, "mail", 1)
    with pytest.raises(ZeroDivisionError), store.transaction() as connection:  # noqa: PT012 - a transaction
        lost = store.enqueue_tx(connection, "mail", 2)
        raise ZeroDivisionError
    assert [store.get_job(one) is not None for one in (kept, lost)] == [True, False]


def test_what_the_applications_statements_raise_there_stays_as_it_is(
    store: PostgresStore,
) -> None:
    with pytest.raises(psycopg.errors.UndefinedTable), store.transaction() as connection:
        connection.execute("SELECT * FROM no_such_table")
    with pytest.raises(psycopg.errors.DivisionByZero), store.transaction() as connection:
        connection.execute("SELECT 1 / 0")
    with store.transaction() as connection:
        with pytest.raises(psycopg.errors.UndefinedTable), connection.transaction():
            connection.execute("SELECT * FROM no_such_table")
        store.enqueue_tx(connection, "mail", 1)
    assert store.queue("mail").size() == 1


def test_a_commit_that_fails_there_is_ours_to_tell(
    store: PostgresStore, connection: psycopg.Connection[Any], schema: str
) -> None:
    table = psycopg.sql.Identifier(schema, "late")
    connection.execute(
        psycopg.sql.SQL("CREATE TABLE {} (n int UNIQUE DEFERRABLE INITIALLY DEFERRED)").format(
            table
        )
    )
    insert = psycopg.sql.SQL("INSERT INTO {} VALUES (1), (1)").format(table)
    with pytest.raises(alkstore.DatabaseError) as caught, store.transaction() as own:
        own.execute(insert)
    assert caught.value.sqlstate == "23505"
