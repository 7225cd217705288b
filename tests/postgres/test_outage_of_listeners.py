"""The database is away: what stands by or only listens waits quietly, and is back soon after.

The issue of fault cost, for those that hardly ever talk to the database: a standby scheduler, and
the listener of each store. Attempts to connect are counted, not timed.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator

import pytest

import alkstore_postgres
from alkstore.traits import Runner
from alkstore_postgres import PostgresStore
from alkstore_postgres.embedded import EmbeddedServer
from tests.support.outage import BACK, OUTAGE, Attempts, Fault, away, full
from tests.support.timing import Stopwatch
from tests.support.waiting import wait_until

pytestmark = pytest.mark.slow


@pytest.fixture
def attempts(monkeypatch: pytest.MonkeyPatch) -> Attempts:
    """Who tried to connect."""
    return Attempts(monkeypatch)


@pytest.fixture
def leader(own_server: EmbeddedServer) -> Iterator[Runner]:
    """The scheduler of one store, which leads."""
    with alkstore_postgres.open(own_server.url, timeout=5) as store:
        runner = store.start_scheduler()
        wait_until(lambda: runner.state == "leading")
        yield runner


@pytest.fixture
def store(
    own_server: EmbeddedServer, leader: Runner, attempts: Attempts
) -> Iterator[PostgresStore]:
    """Another store on the same server."""
    with alkstore_postgres.open(own_server.url, timeout=5) as store:
        yield store


@pytest.fixture
def standby(store: PostgresStore) -> Runner:
    """The scheduler of the other store, which stands by and listens."""
    runner = store.start_scheduler()
    wait_until(lambda: runner.state == "standby")
    wait_until(lambda: store._parts.hub.state == "listening")
    return runner


@pytest.mark.parametrize("fault", [away, full])
def test_a_standby_and_its_listener_wait_quietly_and_are_back_within_five_seconds(
    own_server: EmbeddedServer,
    store: PostgresStore,
    *,
    leader: Runner,
    standby: Runner,
    attempts: Attempts,
    caplog: pytest.LogCaptureFixture,
    fault: Fault,
) -> None:
    """Field cases B69, B83 and B87."""
    hub = store._parts.hub
    caplog.set_level(logging.INFO)
    end = fault(own_server)
    wait_until(lambda: hub.state == "lost", 20)
    caplog.clear()
    attempts.reset()
    failed = standby.health().details["failures"]
    time.sleep(OUTAGE)
    tried = (attempts.listener, attempts.pool)
    failures = standby.health().details["failures"] - failed
    lines = [one for one in caplog.records if one.name.startswith("alkstore")]
    # One line for each connection that died is as it should be.
    foreign = [
        one
        for one in caplog.records
        if one.name.startswith("psycopg") and "discarding" not in one.getMessage()
    ]
    caplog.clear()
    end()
    with Stopwatch() as watch:
        wait_until(lambda: hub.state == "listening")
        wait_until(lambda: {leader.state, standby.state} == {"leading", "standby"}, 15)
    assert watch.seconds < BACK
    # Two stores, each with a listener and a pool, try about once a second.
    assert tried[0] <= 2 * OUTAGE
    assert tried[1] <= 2 * 1.5 * OUTAGE
    assert failures <= OUTAGE
    # The leader's turns fail and are told of, rarely; nothing else happens.
    assert len(lines) <= 4, [line.getMessage() for line in lines]
    assert len(foreign) <= 2, [line.getMessage() for line in foreign]

    def told() -> list[str]:
        lines = [one.getMessage() for one in caplog.records.copy()]
        return [line for line in lines if "listener" in line]

    # A line follows what it tells of; the leader's store may come a moment later.
    wait_until(told)
    assert told()[:1] == ["the listener is connected"]
    assert len(told()) <= 2
    with store.listen("hello") as listener:
        store.notify("hello")
        assert listener.wait(5) is not None
