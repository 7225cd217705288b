"""A leader that cannot reach its database says so, and its health call waits for nobody.

The user's story: a liveness probe calls `health()`, an operator looks at `state`. A leader that has
lost its lease, or cannot renew it, must not go on to say that it leads, and a probe must not hang
as long as the database does.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import psycopg
import pytest
from psycopg import sql

import alkstore_postgres
from alkstore.errors import DatabaseError
from alkstore.runners.status import PATIENCE
from alkstore.traits import Runner
from alkstore.values import RunnerHealth
from alkstore_postgres import PostgresStore
from alkstore_postgres.embedded import EmbeddedServer
from alkstore_postgres.scheduler import leader as leader_module
from alkstore_postgres.scheduler import registry as registry_module
from tests.support.proxy import Proxy
from tests.support.schedules import ScheduleTable
from tests.support.timing import Stopwatch
from tests.support.waiting import wait_until

TTL = 2.0
SOON = 2.0
"""How long a health call may take, in seconds; it waits for half of that."""

Open = Callable[..., PostgresStore]


@pytest.fixture
def short_lease(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let leases end soon, and hung reviews too."""
    run = leader_module.LeaderLoop.__init__
    defaults = {**(run.__kwdefaults__ or {}), "ttl": TTL}
    monkeypatch.setattr(run, "__kwdefaults__", defaults)
    monkeypatch.setattr(registry_module, "_REVIEW_CUT", TTL)


@contextmanager
def leading(conninfo: str, schema: str) -> Iterator[Runner]:
    """The scheduler of a store of its own, which leads."""
    with alkstore_postgres.open(conninfo, schema, timeout=TTL) as store:
        runner = store.start_scheduler()
        wait_until(lambda: runner.state == "leading")
        yield runner


def health_soon(runner: Runner) -> RunnerHealth:
    """Return its health, which is told soon."""
    with Stopwatch() as watch:
        health = runner.health()
    assert watch.seconds < SOON
    return health


def lines(caplog: pytest.LogCaptureFixture, text: str) -> int:
    """Return how many lines of the library hold *text*."""
    return sum(
        one.name.startswith("alkstore") and text in one.getMessage() for one in caplog.records
    )


@pytest.mark.usefixtures("short_lease")
def test_a_leader_behind_a_silent_network_says_so_and_one_alone_leads(
    proxy: Proxy, store: PostgresStore, schema: str
) -> None:
    with leading(proxy.conninfo, schema) as cut_off:
        proxy.stall()
        other = store.start_scheduler()
        wait_until(lambda: other.state == "leading", 15)
        assert cut_off.state == "backing-off"
        assert "unanswered" in health_soon(cut_off).details
        wait_until(lambda: cut_off.last_error is not None, 15)
        assert cut_off.state == "backing-off"
        assert health_soon(other).healthy
        proxy.resume()
        wait_until(lambda: cut_off.state == "standby", 15)
        assert health_soon(cut_off).healthy
        assert other.state == "leading"


@pytest.mark.usefixtures("short_lease")
def test_a_leader_whose_network_comes_back_in_time_leads_again(proxy: Proxy, schema: str) -> None:
    """Nobody else took the lease; the hung review is over, and its connection given back."""
    with alkstore_postgres.open(proxy.conninfo, schema):
        pass
    with leading(proxy.conninfo, schema) as runner:
        proxy.stall()
        assert "has not answered" in health_soon(runner).details["unanswered"]
        wait_until(lambda: runner.state == "backing-off", 15)
        proxy.resume()
        wait_until(lambda: runner.state == "leading", 15)
        wait_until(lambda: "unanswered" not in runner.health().details, 15)


def test_a_leader_whose_server_is_down_says_so(
    own_server: EmbeddedServer, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    with leading(own_server.url, "down") as runner:
        own_server.halt("immediate")
        wait_until(lambda: runner.state == "backing-off")
        assert runner.last_error is not None
        assert "unanswered" in health_soon(runner).details
        assert runner.state == "backing-off"
        own_server.resume()
        wait_until(lambda: runner.state == "leading")
        wait_until(lambda: "unanswered" not in runner.health().details)
        assert lines(caplog, "the leadership failed") == 1
        assert lines(caplog, "works again after") == 1
        assert lines(caplog, "a turn of the scheduler failed") == 0
        assert lines(caplog, "the scheduler goes on") == 0


def test_a_leader_on_a_read_only_database_says_so(database_url: str) -> None:
    """Field case B57."""
    with (
        leading(database_url, "read_only") as runner,
        psycopg.connect(database_url, autocommit=True) as admin,
    ):
        name = admin.info.dbname
        alter = sql.SQL("ALTER DATABASE {} SET default_transaction_read_only = {}")
        ends = (
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE pid <> pg_backend_pid() AND datname = current_database()"
        )
        admin.execute(alter.format(sql.Identifier(name), "on"))
        admin.execute(ends)
        wait_until(lambda: "read-only" in str(runner.last_error))
        assert runner.state == "backing-off"
        health_soon(runner)
        admin.execute(alter.format(sql.Identifier(name), "off"))
        admin.execute(ends)
        wait_until(lambda: runner.state == "leading")


@pytest.mark.usefixtures("short_lease")
def test_a_standby_that_cannot_ask_for_the_lease_backs_off(own_server: EmbeddedServer) -> None:
    with (
        leading(own_server.url, "standby") as leader,
        alkstore_postgres.open(own_server.url, "standby", timeout=TTL) as store,
    ):
        standby = store.start_scheduler()
        wait_until(lambda: standby.state == "standby")
        own_server.halt("immediate")
        wait_until(lambda: standby.state == "backing-off", 15)
        assert standby.last_error is not None
        own_server.resume()
        wait_until(lambda: {leader.state, standby.state} == {"leading", "standby"}, 15)


def test_a_locked_table_does_not_hold_up_the_health_of_a_leader(
    open_store: Open, schema: str, connection: psycopg.Connection[tuple[object, ...]]
) -> None:
    store = open_store()
    table = ScheduleTable(connection, schema)
    store.schedule("bad", "@every 1h", "q", 1)
    table.set("bad", "spec", "'banana'")
    runner = store.start_scheduler()
    wait_until(lambda: runner.state == "leading")
    assert list(health_soon(runner).details["quarantined"]) == ["bad"]
    with connection.transaction():
        connection.execute(
            sql.SQL("LOCK TABLE {} IN ACCESS EXCLUSIVE MODE").format(
                sql.Identifier(schema, "schedules")
            )
        )
        for _ in range(2):
            health = health_soon(runner)
            assert health.healthy
            assert "the database has not answered" in health.details["unanswered"]
            assert list(health.details["quarantined"]) == ["bad"]
        runner._patience = 1.0  # type: ignore[attr-defined]
        assert not health_soon(runner).healthy
        runner._patience = PATIENCE  # type: ignore[attr-defined]
    wait_until(lambda: "unanswered" not in runner.health().details)
    assert runner.health().healthy


def test_the_server_ends_a_review_that_waits_too_long(
    open_store: Open,
    schema: str,
    connection: psycopg.Connection[tuple[object, ...]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    store = open_store()
    with connection.transaction(), monkeypatch.context() as patched:
        patched.setattr(registry_module, "_REVIEW_LIMIT", 0.2)
        connection.execute(
            sql.SQL("LOCK TABLE {} IN ACCESS EXCLUSIVE MODE").format(
                sql.Identifier(schema, "schedules")
            )
        )
        with pytest.raises(DatabaseError) as told:
            store._parts.registry.review()
    assert told.value.sqlstate == "57014"
    assert store._parts.registry.review() == {"late": [], "quarantined": {}}
