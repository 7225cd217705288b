"""The seam on SQLAlchemy, and what SQLAlchemy knows of it."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
import sqlalchemy
from sqlalchemy import orm
from sqlalchemy.ext.asyncio import AsyncConnection, create_async_engine

import alkstore
from alkstore_postgres import PostgresStore
from tests.support.carriers import engine_url


@pytest.fixture(params=["psycopg", "psycopg2"])
def engine(request: pytest.FixtureRequest, conninfo: str) -> Iterator[sqlalchemy.Engine]:
    made = sqlalchemy.create_engine(
        engine_url(conninfo, request.param), pool_size=1, max_overflow=0
    )
    yield made
    made.dispose()


def size(store: PostgresStore) -> int:
    return store.queue("mail").size()


def test_begin_blocks_commit_and_roll_back(store: PostgresStore, engine: sqlalchemy.Engine) -> None:
    with engine.begin() as connection:
        store.enqueue_tx(connection, "mail", 1)
    with pytest.raises(ZeroDivisionError), engine.begin() as connection:  # noqa: PT012 - a transaction
        store.enqueue_tx(connection, "mail", 2)
        raise ZeroDivisionError
    with engine.connect() as connection:
        store.enqueue_tx(connection, "mail", 3)  # never committed
    with orm.Session(engine) as session, session.begin():
        store.enqueue_tx(session, "mail", 4)
    assert size(store) == 2


def test_sqlalchemy_knows_of_the_transaction(
    store: PostgresStore, engine: sqlalchemy.Engine
) -> None:
    with engine.connect() as connection:
        store.enqueue_tx(connection, "mail", 1)
        assert connection.in_transaction()
        connection.commit()
        assert not connection.in_transaction()
    with orm.Session(engine) as session:
        store.enqueue_tx(session, "mail", 1)
        assert session.in_transaction()
        session.commit()
    assert size(store) == 2


def test_the_pool_of_one_connection_is_enough(
    store: PostgresStore, engine: sqlalchemy.Engine
) -> None:
    """Field case B85."""
    with orm.Session(engine) as session:
        session.execute(sqlalchemy.text("SELECT 1"))
        store.enqueue_tx(session, "mail", 1)
        store.enqueue_tx(session.connection(), "mail", 2)
        session.commit()
    assert size(store) == 2


@pytest.mark.parametrize("kind", ["engine", "connection"])
def test_autocommit_is_refused(store: PostgresStore, engine: sqlalchemy.Engine, kind: str) -> None:
    if kind == "engine":
        engine = engine.execution_options(isolation_level="AUTOCOMMIT")
    with engine.connect() as connected:
        connection = connected
        if kind == "connection":
            connection = connected.execution_options(isolation_level="AUTOCOMMIT")
        with pytest.raises(alkstore.NoTransaction, match="autocommit"):
            store.enqueue_tx(connection, "mail", 1)
        connection.execute(sqlalchemy.text("SELECT 1"))
        with pytest.raises(alkstore.NoTransaction, match="autocommit"):
            store.enqueue_tx(connection, "mail", 1)
    assert size(store) == 0


def test_where_no_transaction_may_begin_it_is_refused(
    store: PostgresStore, engine: sqlalchemy.Engine
) -> None:
    with engine.connect() as connection, connection.begin() as transaction:
        transaction.rollback()
        with pytest.raises(alkstore.NoTransaction, match="closed transaction"):
            store.enqueue_tx(connection, "mail", 1)
    session = orm.Session(engine, autobegin=False)
    with pytest.raises(alkstore.NoTransaction, match=r"[Aa]utobegin"):
        store.enqueue_tx(session, "mail", 1)


def test_a_closed_connection_is_told(store: PostgresStore, engine: sqlalchemy.Engine) -> None:
    with engine.connect() as connection:
        pass
    with pytest.raises(alkstore.DatabaseError, match="closed"):
        store.enqueue_tx(connection, "mail", 1)


def test_a_session_that_waits_for_a_rollback_is_told(
    store: PostgresStore, engine: sqlalchemy.Engine
) -> None:
    class Base(orm.DeclarativeBase):
        pass

    class Missing(Base):
        __tablename__ = "no_such_table"
        id: orm.Mapped[int] = orm.mapped_column(primary_key=True)

    with orm.Session(engine) as session:
        session.add(Missing(id=1))
        with pytest.raises(sqlalchemy.exc.ProgrammingError):
            session.flush()
        with pytest.raises(alkstore.DatabaseError):
            store.enqueue_tx(session, "mail", 1)
        session.rollback()
        store.enqueue_tx(session, "mail", 1)
        session.commit()
    assert size(store) == 1


def test_a_lost_connection_is_known_to_sqlalchemy_and_replaced(
    store: PostgresStore, engine: sqlalchemy.Engine, connection: psycopg.Connection[Any]
) -> None:
    with engine.connect() as own:
        pid = own.scalar(sqlalchemy.text("SELECT pg_backend_pid()"))
        connection.execute("SELECT pg_terminate_backend(%s, 5000)", [pid])
        with pytest.raises(alkstore.DatabaseError) as caught:
            store.enqueue_tx(own, "mail", 1)
        assert caught.value.retryable
        assert own.invalidated
        own.rollback()
        store.enqueue_tx(own, "mail", 2)
        own.commit()
    assert size(store) == 1


def test_a_database_that_cannot_be_reached_is_told_without_the_password(
    store: PostgresStore, engine: sqlalchemy.Engine
) -> None:
    away = sqlalchemy.create_engine(engine.url.set(port=1, password="hush-hush"))
    with orm.Session(away) as session, pytest.raises(alkstore.DatabaseError) as caught:
        store.enqueue_tx(session, "mail", 1)
    assert caught.value.retryable
    assert "hush" not in str(caught.value)


def test_other_databases_and_sessions_without_one_are_type_errors(
    store: PostgresStore,
) -> None:
    lite = sqlalchemy.create_engine("sqlite://")
    with lite.connect() as connection, pytest.raises(TypeError, match="sqlite3"):
        store.enqueue_tx(connection, "mail", 1)
    with pytest.raises(TypeError, match="Engine"):
        store.enqueue_tx(lite, "mail", 1)
    with pytest.raises(TypeError, match="no single database"):
        store.enqueue_tx(orm.Session(), "mail", 1)
    lite.dispose()


def test_asynchronous_ones_are_refused_by_name(store: PostgresStore, conninfo: str) -> None:
    async def attempt() -> None:
        engine = create_async_engine(engine_url(conninfo, "psycopg_async"))

        async with engine.connect() as connection:
            with pytest.raises(TypeError, match="asynchronous"):
                store.enqueue_tx(connection, "mail", 1)
            await in_sync(connection)
        await engine.dispose()

    async def in_sync(connection: AsyncConnection) -> None:
        def call(sync: sqlalchemy.Connection) -> None:
            with pytest.raises(TypeError, match="asynchronous"):
                store.enqueue_tx(sync, "mail", 1)

        await connection.run_sync(call)

    asyncio.run(attempt())
    assert size(store) == 0


def test_nothing_is_imported_that_the_application_does_not_use(conninfo: str, schema: str) -> None:
    script = (
        "import sys, psycopg, alkstore_postgres\n"
        f"store = alkstore_postgres.open({conninfo!r}, {schema!r})\n"
        f"with psycopg.connect({conninfo!r}) as tx: store.enqueue_tx(tx, 'mail', 1)\n"
        "store.close()\n"
        "print(*{name.partition('.')[0] for name in sys.modules}"
        " & {'sqlalchemy', 'django', 'psycopg2'})\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert (done.stdout.strip(), done.stderr) == ("", "")
