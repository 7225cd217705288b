"""A database that is away, restarting or read-only does not end the loop.

The user's story: the scheduler runs inside a web process; the database is restarted, failed
over, or its sessions are terminated by an administrator. The invariant: the loop lives, goes
on as the leader while the lease is its own, and each boundary fires once (field cases B07,
B39, B57).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta

import psycopg
import pytest
from psycopg import sql

import alkstore_postgres
from alkstore_postgres import PostgresStore, embedded
from tests.support.leading import Leading
from tests.support.schedules import ScheduleTable, grid
from tests.support.timing import in_time
from tests.support.waiting import wait_until

SECOND = timedelta(seconds=1)
SCHEMA = "outages"


@contextmanager
def looking(url: str, schema: str) -> Iterator[ScheduleTable]:
    """A look at the rows over a connection of its own."""
    with psycopg.connect(url, autocommit=True) as connection:
        yield ScheduleTable(connection, schema)


def fires_on(url: str, schema: str) -> None:
    """Wait until something fires that had not fired yet."""
    with looking(url, schema) as table:
        seen = table.jobs()
        wait_until(lambda: table.jobs() > seen, timeout=15)


def each_once(url: str, schema: str) -> None:
    """Every boundary so far has fired once."""
    with looking(url, schema) as table:
        fired = table.fired("s")
        assert fired == grid(fired[0], SECOND, len(fired))


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["fast", "immediate"])
def test_a_restarting_server_does_not_end_the_loop(
    own_server: embedded.EmbeddedServer, mode: str
) -> None:
    with alkstore_postgres.open(own_server.url, SCHEMA, timeout=2) as store:
        store.schedule("s", "@every 1s", "s", 1)
        with Leading(store) as leading:
            for _ in range(3):
                fires_on(own_server.url, SCHEMA)
                own_server.restart(mode)
            fires_on(own_server.url, SCHEMA)
            assert leading.running
        each_once(own_server.url, SCHEMA)


@pytest.mark.slow
def test_an_outage_longer_than_the_lease_is_survived_when_nobody_else_took_it(
    own_server: embedded.EmbeddedServer,
) -> None:
    with alkstore_postgres.open(own_server.url, SCHEMA, timeout=1) as store:
        store.schedule("s", "@every 1s", "s", 1)
        with Leading(store, ttl=1.0) as leading:
            fires_on(own_server.url, SCHEMA)
            own_server.halt("immediate")
            turns = leading.turns
            leading.stop.wait(4.0)  # the time without a server is the point
            assert leading.turns <= turns + 1
            own_server.resume()
            fires_on(own_server.url, SCHEMA)
            assert leading.running
        each_once(own_server.url, SCHEMA)


def test_a_loop_stops_in_time_while_the_server_is_away(
    own_server: embedded.EmbeddedServer,
) -> None:
    with alkstore_postgres.open(own_server.url, SCHEMA, timeout=1) as store:

        def stop_it() -> float:
            own_server.resume()
            with looking(own_server.url, SCHEMA) as table:
                table.run("DELETE FROM {locks}")
            leading = Leading(store, ttl=1.0).lead()
            own_server.halt("immediate")
            leading.stop.wait(1.0)
            took = leading.end()
            assert leading.error is None
            return took

        in_time(stop_it, 0.15)


@pytest.mark.timeout(180)
@pytest.mark.parametrize(
    ("times", "every"), [(12, 0.4), pytest.param(30, 2.0, marks=pytest.mark.slow)]
)
def test_sessions_that_are_terminated_again_and_again_cost_no_boundary(
    *,
    store: PostgresStore,
    conninfo: str,
    schema: str,
    table: ScheduleTable,
    times: int,
    every: float,
) -> None:
    """Field case B39: every session of the application, leader and listener alike."""
    store.schedule("s", "@every 1s", "s", 1)
    with Leading(store, ttl=2.0) as leading:
        for _ in range(times):
            table.run(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <>"
                " pg_backend_pid() AND application_name = 'alkstore' AND position(%s in query) > 0",
                schema,
            )
            leading.stop.wait(every)
        fires_on(conninfo, schema)
        assert leading.running
    each_once(conninfo, schema)


def test_a_read_only_database_is_waited_for(database_url: str) -> None:
    """Field case B57: nothing is fired meanwhile, and it goes on by itself."""
    with (
        alkstore_postgres.open(database_url, SCHEMA) as store,
        looking(database_url, SCHEMA) as table,
    ):
        name = table.run("SELECT current_database()").fetchone()
        assert name is not None
        alter = sql.SQL("ALTER DATABASE {} SET default_transaction_read_only = {}")
        store.schedule("s", "@every 1s", "s", 1)
        with Leading(store, ttl=2.0) as leading:
            fires_on(database_url, SCHEMA)
            for setting in ("on", "off"):
                table._connection.execute(alter.format(sql.Identifier(name[0]), setting))
                table.run(
                    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                    " WHERE pid <> pg_backend_pid() AND datname = current_database()"
                )
                leading.stop.wait(1.5)
                assert leading.running
            fires_on(database_url, SCHEMA)
        each_once(database_url, SCHEMA)
