"""Uses of stores and transactions that every type checker must accept. Checked, never run."""

from __future__ import annotations

from contextlib import AbstractContextManager, closing
from datetime import timedelta
from typing import Any

import psycopg
from psycopg_pool import ConnectionPool
from typing_extensions import assert_type

import alkstore
import alkstore_postgres
from alkstore import EnqueueOptions, JsonCodec, Scheduler, Store
from alkstore.memory import MemoryStore
from alkstore_postgres import OpenOptions, PostgresStore, StoreOptions


def versions() -> None:
    """Both distributions have one."""
    assert_type(alkstore.__version__, str)
    assert_type(alkstore_postgres.__version__, str)


def engines_are_stores() -> list[Store]:
    """Each engine is a `Store`, and so a `Scheduler`."""
    opened = alkstore_postgres.open("postgresql:///app", schema="jobs", migrate=False, max_size=4)
    assert_type(opened, PostgresStore)
    schedulers: list[Scheduler] = [opened, MemoryStore()]
    assert schedulers
    return [opened, MemoryStore()]


def any_pool_can_be_lent(
    plain: ConnectionPool, typed: ConnectionPool[psycopg.Connection[dict[str, Any]]]
) -> list[PostgresStore]:
    """A pool of any row type is taken."""
    lent: StoreOptions = {
        "migrate": False,
        "codec": JsonCodec(),
        "max_payload_bytes": 1_000,
        "timeout": timedelta(seconds=3),
        "listen_conninfo": "postgresql:///app",
    }
    return [
        PostgresStore(plain),
        PostgresStore(plain, "schema", **lent),
        PostgresStore(typed, schema="schema", timeout=3, listen_conninfo=None),
    ]


def opening() -> list[PostgresStore]:
    """What a lent pool takes, and how to build one."""
    own: OpenOptions = {
        "migrate": True,
        "codec": JsonCodec(),
        "max_payload_bytes": 1_000,
        "timeout": 0.5,
        "listen_conninfo": None,
        "min_size": 0,
        "max_size": 20,
        "prepare_threshold": None,
    }
    assert_type(own["prepare_threshold"], int | None)
    return [
        alkstore_postgres.open("postgresql:///app"),
        alkstore_postgres.open("dbname=app", "jobs", **own),
        alkstore_postgres.open(conninfo="dbname=app", schema="jobs", min_size=1),
    ]


def migrating() -> None:
    """The names of what was applied."""
    assert_type(alkstore_postgres.migrate("postgresql:///app"), list[str])
    assert_type(alkstore_postgres.migrate(conninfo="dbname=app", schema="jobs"), list[str])


def the_end_of_a_store(store: Store) -> None:
    """A store is closable, and a context manager."""
    with store as same:
        assert_type(same, Store)
    with closing(store) as another:
        assert_type(another, Store)
    store.close()


def a_store_of_postgresql(opened: PostgresStore) -> None:
    """It has a little more, and says what it lends."""
    assert_type(opened.tick(), int)
    assert_type(opened.closed, bool)
    with opened as same:
        assert_type(same, PostgresStore)
    with opened.transaction() as tx:
        assert_type(tx, psycopg.Connection[Any])


def transactions(store: Store, options: EnqueueOptions) -> None:
    """A store lends a connection of its own kind."""
    assert_type(store.transaction(), AbstractContextManager[Any])
    with store.transaction() as tx:
        assert_type(store.enqueue_tx(tx, "mail", {"to": 1}), int)
        assert_type(store.enqueue_tx(tx, "mail", 1, delay=5, priority=1), int)
        assert_type(store.outbox_enqueue_tx(tx, "events", 1, **options), int)
        store.notify_tx(tx, "news")


def connections_of_the_application(store: Store, connection: psycopg.Connection[Any]) -> None:
    """Whatever joins is taken; the engine looks at it when it runs."""
    with connection.transaction(), connection.cursor() as cursor:
        store.enqueue_tx(connection, "mail", 1)
        store.outbox_enqueue_tx(cursor, "mail", 1, max_attempts=2)
        store.notify_tx(tx=connection, channel="news")
