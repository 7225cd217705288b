"""The database is away: every runner waits quietly, and is back soon after.

The user's story: the database restarts, or is gone for a while. Nobody restarts the
application, and the next morning the log can still be read.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from typing import Any

import pytest

import alkstore_postgres
from alkstore.errors import DatabaseError
from alkstore.traits import JobHandle, Runner
from alkstore_postgres import PostgresStore
from alkstore_postgres.embedded import EmbeddedServer
from tests.support.outage import BACK, OUTAGE, full
from tests.support.timing import Stopwatch
from tests.support.waiting import wait_until

STATES = ["working", "working", "leading"]


@pytest.fixture
def store(own_server: EmbeddedServer) -> Iterator[PostgresStore]:
    """Return a store on a server that may be taken down."""
    with alkstore_postgres.open(own_server.url, timeout=5) as store:
        yield store


@pytest.fixture
def got(store: PostgresStore) -> list[Any]:
    """Return what the runners got so far."""
    return []


@pytest.fixture
def runners(store: PostgresStore, got: list[Any]) -> list[Runner]:
    """Return a worker, a relay and a scheduler that do their work."""

    def take(job: JobHandle) -> None:
        got.append(job.payload)

    runners = [
        store.start_worker("emails", take, 2),
        store.start_outbox("events", take),
        store.start_scheduler(),
    ]
    store.schedule("tick", "@every 1s", "emails", "tick")
    wait_until(lambda: [one.state for one in runners] == STATES)
    wait_until(lambda: "tick" in got)
    return runners


def failures(runner: Runner) -> int:
    count: int = runner.health().details["failures"]
    return count


@pytest.mark.slow
def test_after_an_outage_every_runner_is_back_within_five_seconds_and_the_log_is_short(
    own_server: EmbeddedServer,
    store: PostgresStore,
    runners: list[Runner],
    got: list[Any],
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Field cases B07, B83 and B87."""
    caplog.set_level(logging.INFO, "alkstore")
    caplog.clear()
    own_server.halt("immediate")
    wait_until(lambda: {one.state for one in runners} & {"backing-off"})
    before = [one.health().details["failures"] for one in runners]
    time.sleep(OUTAGE)
    tries = [
        one.health().details["failures"] - was for one, was in zip(runners, before, strict=True)
    ]
    lines = [one for one in caplog.records if one.name.startswith("alkstore.")]
    own_server.resume()
    with Stopwatch() as watch:
        wait_until(lambda: [one.state for one in runners] == STATES)
    assert watch.seconds < BACK
    got.clear()
    wait_until(lambda: "tick" in got, 5)
    store.queue("emails").enqueue("job")
    store.outbox("events").enqueue("message")
    wait_until(lambda: {"job", "message"} <= set(got))
    assert all(one.health().healthy for one in runners)
    assert max(tries) <= OUTAGE / 0.9, "a hot loop"
    assert len(lines) <= 12, [line.getMessage() for line in lines]


@pytest.mark.slow
def test_with_no_connection_to_be_had_every_runner_waits_and_comes_back(
    own_server: EmbeddedServer, store: PostgresStore, runners: list[Runner], got: list[Any]
) -> None:
    """Issue of fault cost: too many connections."""
    release = full(own_server)
    time.sleep(OUTAGE)
    release()
    with Stopwatch() as watch:
        wait_until(lambda: [one.state for one in runners] == STATES)
    assert watch.seconds < BACK
    got.clear()
    wait_until(lambda: "tick" in got, 5)
    assert store.queue("emails").stats().dead == 0


def test_a_call_of_the_application_fails_fast_meanwhile(
    own_server: EmbeddedServer, store: PostgresStore
) -> None:
    """Field case B83."""
    own_server.halt("immediate")
    with Stopwatch() as watch:
        with pytest.raises(DatabaseError) as caught:
            store.queue("emails").enqueue(1)
        assert caught.value.retryable
        with pytest.raises(DatabaseError):
            store.queue("emails").enqueue(1)
    assert watch.seconds < 11
    own_server.resume()


def test_stop_keeps_its_time_limit_while_the_database_is_away(
    own_server: EmbeddedServer, runners: list[Runner]
) -> None:
    """Field case B88."""
    own_server.halt("immediate")
    time.sleep(1)
    for one in runners:
        with Stopwatch() as watch:
            one.stop(1)
        assert watch.seconds < 2.3
    own_server.resume()
    assert [one.join(10) for one in runners] == [True] * 3
