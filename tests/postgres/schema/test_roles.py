"""Field case B24: what a role needs to migrate, and what it needs at run time."""

from __future__ import annotations

import secrets
import threading
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import make_conninfo
from psycopg_pool import ConnectionPool

import alkstore
import alkstore_postgres
from alkstore_postgres import PostgresStore
from alkstore_postgres.schema.migrator import Migrator
from tests.support.waiting import wait_until


@pytest.fixture
def role(connection: psycopg.Connection[Any]) -> Iterator[str]:
    """A role that may log in and nothing else."""
    name = f"role_{secrets.token_hex(4)}"
    connection.execute(f"CREATE ROLE {name} LOGIN PASSWORD 'secret'".encode())
    yield name
    connection.execute(f"DROP OWNED BY {name} CASCADE".encode())
    connection.execute(f"DROP ROLE {name}".encode())


@pytest.fixture
def as_role(conninfo: str, role: str) -> str:
    return make_conninfo(conninfo, user=role, password="secret")


def test_the_owner_of_nothing_but_the_schema_may_migrate(
    connection: psycopg.Connection[Any], role: str, as_role: str, schema: str
) -> None:
    create = sql.SQL("CREATE SCHEMA {} AUTHORIZATION {}")
    connection.execute(create.format(sql.Identifier(schema), sql.Identifier(role)))
    with alkstore_postgres.open(as_role, schema) as store:
        store.queue("mail").enqueue(1)


def test_without_any_right_it_is_told_what_is_missing(
    conninfo: str, as_role: str, schema: str
) -> None:
    with pytest.raises(alkstore.DatabaseError, match="permission denied") as caught:
        alkstore_postgres.open(as_role, schema)
    assert (caught.value.sqlstate, caught.value.retryable) == ("42501", False)
    with pytest.raises(alkstore.SchemaOutdated):
        alkstore_postgres.open(as_role, schema, migrate=False)
    alkstore_postgres.migrate(conninfo, schema)
    with pytest.raises(alkstore.DatabaseError, match="permission denied"):
        alkstore_postgres.open(as_role, schema, migrate=False)


def test_reading_and_writing_the_tables_is_enough_at_run_time(
    connection: psycopg.Connection[Any],
    conninfo: str,
    role: str,
    as_role: str,
    schema: str,
) -> None:
    alkstore_postgres.migrate(conninfo, schema)
    for grant in (
        "GRANT USAGE ON SCHEMA {} TO {}",
        "GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA {} TO {}",
    ):
        names = (sql.Identifier(schema), sql.Identifier(role))
        connection.execute(sql.SQL(grant).format(*names))
    for migrate in (True, False):
        with alkstore_postgres.open(as_role, schema, migrate=migrate) as store:
            live(store)


def test_the_roles_time_limits_do_not_end_the_wait_for_another_migrator(
    connection: psycopg.Connection[Any], conninfo: str, schema: str
) -> None:
    key = Migrator(connection, schema)._lock_key()
    # The time limit of statements is longer than what a busy machine takes for those before.
    limited = make_conninfo(conninfo, options="-c lock_timeout=20ms -c statement_timeout=2s")
    opened: list[BaseException | None] = []

    def boot() -> None:
        try:
            alkstore_postgres.open(limited, schema).close()
        except BaseException as error:  # noqa: BLE001 - told below
            opened.append(error)
        else:
            opened.append(None)

    waits = """SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'advisory'
        AND state_change < clock_timestamp() - interval '2.5 s'"""
    connection.execute("SELECT pg_advisory_lock(%s)", [key])
    thread = threading.Thread(target=boot)
    thread.start()
    wait_until(lambda: opened or connection.execute(waits).fetchone() != (0,), 20)
    connection.execute("SELECT pg_advisory_unlock(%s)", [key])
    thread.join(20)
    assert opened == [None]


def test_a_pool_in_read_only_mode_migrates_as_well(conninfo: str, schema: str) -> None:
    def configure(connection: psycopg.Connection[Any]) -> None:
        connection.read_only = True

    with ConnectionPool(conninfo, min_size=1, configure=configure, open=True) as pool:
        store = PostgresStore(pool, schema)
        live(store)
        with pool.connection() as connection:
            assert connection.read_only is True
        store.close()


def live(store: PostgresStore) -> None:
    """Go through the lives of jobs, locks, schedules and messages."""
    queue = store.queue("mail")
    queue.enqueue_many(range(4))
    first, second, third, fourth = queue.claim("w", 4)
    assert first.heartbeat()
    assert first.ack()
    assert second.retry("later")
    assert third.fail("no")
    assert fourth.release()
    assert queue.requeue([third.id]) == 1
    assert queue.stats().ready == 2
    assert sum(queue.cancel(one.id) for one in (second, third, fourth)) == 3
    with store.lock("lock", ttl=5) as lock:
        assert lock.renew()
    store.schedule("s", "@every 1s", "fires", 1)
    runner = store.start_scheduler()
    wait_until(lambda: store.queue("fires").size() >= 1)
    assert runner.stop(5)
    assert store.unschedule("s")
    with store.transaction() as own:
        store.outbox_enqueue_tx(own, "events", 1)
    assert store.outbox("events").run_once("w", lambda _: None)
