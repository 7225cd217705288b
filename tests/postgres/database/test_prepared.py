"""What is prepared on the server may go or become outdated at any time: no call notices."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import psycopg
import pytest
from psycopg import sql

import alkstore
from alkstore_postgres import PostgresStore
from alkstore_postgres.database.own_connection import OwnConnection
from alkstore_postgres.database.session import Session

OpenStore = Callable[..., PostgresStore]


@pytest.fixture
def narrow(open_store: OpenStore) -> PostgresStore:
    """A store with one connection that prepares everything at once."""
    return open_store(min_size=1, max_size=1, prepare_threshold=0)


def test_transactions_outlive_that_everything_prepared_is_discarded(narrow: PostgresStore) -> None:
    queue = narrow.queue("mail")
    many = range(8_000)  # several statements
    for _ in range(3):
        queue.enqueue_many(many)
        assert len(queue.peek(5)) == 5
        with narrow.transaction() as own:
            own.execute("DEALLOCATE ALL")
    queue.enqueue_many(many)
    assert narrow._parts.database.fetch_value(b"SELECT 1") == 1
    assert queue.size() == 4 * len(many)


@pytest.mark.parametrize("threshold", [0, 1])
def test_transactions_outlive_a_change_of_a_table_on_each_connection(
    open_store: OpenStore, connection: psycopg.Connection[Any], schema: str, threshold: int
) -> None:
    store = open_store(min_size=2, max_size=2, prepare_threshold=threshold)
    database = store._parts.database
    names = {"table": sql.Identifier(schema, "changing")}

    def alter(text: str) -> None:
        connection.execute(sql.SQL(text).format(**names))

    alter("CREATE TABLE {table} AS SELECT 1::int4 AS value")
    query = sql.SQL("SELECT * FROM {table}").format(**names).as_bytes()

    def read(session: Session) -> object:
        return session.fetch_value(query)

    def read_on_both(session: Session) -> set[object]:
        return {str(database.run(read)), str(read(session))}

    for kind in ("int8", "numeric", "text"):
        with database.transaction() as one, database.transaction() as other:
            for _ in range(2):  # prepared on both
                assert read(one) == read(other)
        alter(f"ALTER TABLE {{table}} ALTER value TYPE {kind}")
        for _ in range(2):
            assert database.run(read_on_both) == {"1"}


def test_what_the_server_cannot_do_is_tried_twice_and_told(store: PostgresStore) -> None:
    calls = []

    def work(session: Session) -> None:
        calls.append(session)
        session.execute(b"DO $$ BEGIN RAISE feature_not_supported; END $$")

    with pytest.raises(alkstore.DatabaseError) as caught:
        store._parts.database.run(work)
    assert caught.value.sqlstate == "0A000"
    assert len(calls) == 2


def test_a_name_on_the_server_means_the_same_statement_for_everybody(open_store: OpenStore) -> None:
    """Sessions that a pooler shares would run each other's statements."""
    options = {"min_size": 1, "max_size": 1, "prepare_threshold": 0}
    one, other = open_store(**options), open_store(**options)
    one.queue("mail").enqueue_many([1, 2])
    one.queue("mail").claim("w")
    other.queue("mail").claim("w")
    other.try_lock("lock", ttl=60)
    other.queue("mail").enqueue_many([1, 2])
    meanings: dict[str, set[object]] = {}
    for store in (one, other):
        with store.transaction() as own:
            prepared = own.execute(
                "SELECT name, (statement, parameter_types)::text FROM pg_prepared_statements"
            )
            for name, meaning in prepared.fetchall():
                meanings.setdefault(name, set()).add(meaning)
    assert len(meanings) >= 3
    assert {name: all_ for name, all_ in meanings.items() if len(all_) > 1} == {}


def test_what_is_there_already_is_used(narrow: PostgresStore) -> None:
    """As an interrupted preparation leaves it."""
    queue = narrow.queue("mail")
    seen = []
    for _ in range(2):
        queue.enqueue(1)
        queue.enqueue_many(range(8_000))
        with narrow._parts.database.connection() as connection:
            assert isinstance(connection, OwnConnection)
            names = connection.engine_cursor._names
            seen.append(len(names))
            names.clear()
    queue.enqueue(1)
    assert queue.size() == 2 * 8_001 + 1
    assert min(seen) >= 2
