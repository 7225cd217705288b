"""On its own connections a store has statements planned once, and tells nobody else to."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
import pytest
from psycopg import sql

import alkstore_postgres
from alkstore_postgres import PostgresStore
from alkstore_postgres.database.own_connection import OwnConnection
from tests.support.pooler import pooler
from tests.support.sql_probe import SqlProbe

OpenStore = Callable[..., PostgresStore]

MODE = "SHOW plan_cache_mode"


@contextmanager
def own_connection(store: PostgresStore) -> Iterator[OwnConnection]:
    """A connection as the engine uses it."""
    with store._parts.database.connection() as connection:
        assert isinstance(connection, OwnConnection)
        yield connection


def mode(store: PostgresStore) -> object:
    """Return the mode of the only connection, once something was prepared there."""
    for _ in range(2):
        store._parts.database.fetch_value(b"SELECT 1")
    with own_connection(store) as connection:
        row = connection.execute(MODE, prepare=False).fetchone()
    assert row is not None
    return row[0]


def test_a_statement_that_is_prepared_is_never_planned_for_its_values(
    open_store: OpenStore,
) -> None:
    store = open_store(min_size=1, max_size=1)
    queue = store.queue("mail")
    queue.enqueue_many(range(40))
    for _ in range(4):
        (handle,) = queue.claim("w")
        assert handle.ack()
        assert queue.ack_many(queue.claim("w", 5)) == 5
    with own_connection(store) as own:
        kept = own.execute(
            "SELECT statement, generic_plans, custom_plans FROM pg_prepared_statements",
            prepare=False,
        ).fetchall()
    claims = [plans for text, *plans in kept if "claimable = false" in text]
    assert len(claims) >= 2
    assert all(generic > 0 and custom == 0 for generic, custom in claims)


def test_what_is_lent_to_the_application_plans_as_the_server_does(open_store: OpenStore) -> None:
    store = open_store(min_size=1, max_size=1)
    assert mode(store) == "force_generic_plan"
    for _ in range(2):
        with store.transaction() as lent:
            assert lent.execute(MODE).fetchone() == ("auto",)
    assert mode(store) == "auto"


def test_a_loan_of_a_connection_that_is_gone_is_told_as_any_other(
    open_store: OpenStore, connection: psycopg.Connection[Any]
) -> None:
    store = open_store(min_size=1, max_size=1)
    with own_connection(store) as own:
        pid = own.info.backend_pid
    connection.execute("SELECT pg_terminate_backend(%s, 5000)", [pid])
    with store.transaction() as lent:
        assert lent.execute(MODE).fetchone() == ("auto",)
        assert lent.info.backend_pid != pid


@pytest.mark.parametrize("chosen", ["force_custom_plan", "force_generic_plan"])
def test_what_the_application_has_chosen_is_kept(conninfo: str, schema: str, chosen: str) -> None:
    theirs = psycopg.conninfo.make_conninfo(conninfo, options=f"-c plan_cache_mode={chosen}")
    with alkstore_postgres.open(theirs, schema, max_size=1) as store:
        assert mode(store) == chosen
        with store.transaction() as lent:
            assert lent.execute(MODE).fetchone() == (chosen,)


def test_where_nothing_is_prepared_nothing_is_set(open_store: OpenStore) -> None:
    assert mode(open_store(min_size=1, max_size=1, prepare_threshold=None)) == "auto"


def test_behind_a_pooler_the_session_of_others_is_left_alone(conninfo: str, schema: str) -> None:
    with (
        pooler(conninfo, "transaction", pool_size=1) as pooled,
        alkstore_postgres.open(
            pooled, schema, max_size=1, prepare_threshold=0, listen_conninfo=conninfo
        ) as store,
    ):
        queue = store.queue("mail")
        queue.enqueue(1)
        assert mode(store) == "auto"
        assert len(queue.claim("w")) == 1


def test_a_server_that_refuses_costs_nothing_but_the_plans(database_url: str, schema: str) -> None:
    with psycopg.connect(database_url, autocommit=True) as owner:
        role, word = "alkstore_unplanned", "word"
        owner.execute(
            sql.SQL("CREATE ROLE {} LOGIN PASSWORD {}").format(
                sql.Identifier(role), sql.Literal(word)
            )
        )
        try:
            owner.execute(
                sql.SQL("GRANT CREATE ON DATABASE {} TO {}").format(
                    sql.Identifier(owner.info.dbname), sql.Identifier(role)
                )
            )
            owner.execute("REVOKE EXECUTE ON FUNCTION pg_catalog.pg_backend_pid() FROM PUBLIC")
            theirs = psycopg.conninfo.make_conninfo(database_url, user=role, password=word)
            with alkstore_postgres.open(
                theirs, schema, max_size=1, listen_conninfo=database_url
            ) as store:
                store.queue("mail").enqueue(1)
                assert mode(store) == "auto"
                assert len(store.queue("mail").claim("w")) == 1
        finally:
            owner.execute("GRANT EXECUTE ON FUNCTION pg_catalog.pg_backend_pid() TO PUBLIC")
            owner.execute(sql.SQL("DROP OWNED BY {} CASCADE").format(sql.Identifier(role)))
            owner.execute(sql.SQL("DROP ROLE {}").format(sql.Identifier(role)))


def test_the_threads_of_the_pool_which_nobody_cuts_off_send_nothing(
    sql_probe: SqlProbe, conninfo: str, schema: str
) -> None:
    """A connection that is silent once it is made would hold one of them for ever."""
    alkstore_postgres.migrate(conninfo, schema)

    def asked() -> int:
        return sum("plan_cache_mode" in statement for statement in traffic.statements)

    with (
        sql_probe.watching() as traffic,
        alkstore_postgres.open(sql_probe.conninfo, schema, migrate=False, min_size=3) as store,
    ):
        store._parts.database._pools.current().wait()
        assert asked() == 0
        for _ in range(3):
            store.queue("mail").enqueue(1)
        assert asked() == 1


def test_what_is_prepared_first_inside_a_transaction_neither_ends_nor_sets_anything(
    open_store: OpenStore,
) -> None:
    store = open_store(min_size=1, max_size=1, prepare_threshold=0)
    database = store._parts.database
    with database.transaction() as session:
        assert session.fetch_value(b"SELECT 2") == 2
        assert session.fetch_value(b"SHOW plan_cache_mode") == "auto"
    assert mode(store) == "force_generic_plan"


def test_a_connection_that_breaks_as_its_plans_are_asked_for_is_told_as_any_other(
    conninfo: str, connection: psycopg.Connection[Any]
) -> None:
    with OwnConnection.connect(conninfo, autocommit=True, prepare_threshold=0) as own:
        cursor = own.engine_cursor
        assert own.keeps_plans is False
        connection.execute("SELECT pg_terminate_backend(%s, 5000)", [own.info.backend_pid])
        with pytest.raises(psycopg.OperationalError):
            cursor.run(b"SELECT 1")
        assert own.closed
