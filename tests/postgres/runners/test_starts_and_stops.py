"""One process, many starts: every runner stops with its store, and none ends silently."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest
from psycopg_pool import ConnectionPool

from alkstore.errors import StoreClosed
from alkstore.names import SCHEDULER_LOCK
from alkstore.traits import Runner
from alkstore_postgres import PostgresStore
from tests.support.waiting import wait_until


def ours() -> list[str]:
    names = (one.name for one in threading.enumerate())
    return [name for name in names if name.startswith("alkstore ")]


def test_a_hundred_starts_and_stops_leave_no_thread(store: PostgresStore) -> None:
    """Field case B82."""
    queue = store.queue("emails")
    for number in range(100):
        queue.enqueue(number)
        runners: list[Runner] = [
            store.start_worker("emails", lambda _job: None),
            store.start_outbox("events", lambda _message: None),
            store.start_scheduler(),
        ]
        assert [one.stop(5) for one in runners] == [True] * 3
        assert [one.stop(5) for one in runners] == [True] * 3
        assert [one.last_error for one in runners] == [None] * 3
    assert ours() == []


def test_a_scheduler_started_twice_is_the_same_and_starts_anew_after_a_stop(
    store: PostgresStore,
) -> None:
    first = store.start_scheduler()
    assert store.start_scheduler() is first
    assert first.stop(5)
    second = store.start_scheduler()
    assert second is not first
    wait_until(lambda: second.state == "leading")


def test_a_closed_store_stops_every_runner_and_starts_none(
    open_store: Callable[..., PostgresStore],
) -> None:
    store = open_store()
    runners = [
        store.start_worker("emails", lambda _job: None),
        store.start_outbox("events", lambda _message: None),
        store.start_scheduler(),
    ]
    store.close()
    assert [one.state for one in runners] == ["stopped"] * 3
    with pytest.raises(StoreClosed):
        store.start_worker("emails", lambda _job: None)
    assert ours() == []


def test_runners_over_a_pool_that_the_application_closes_say_why_they_end(
    conninfo: str, store: PostgresStore, schema: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Contract, section 11: a runner never dies silently."""
    del store  # has made the schema
    with ConnectionPool(conninfo, min_size=1, max_size=4, open=True) as pool:
        stores = [PostgresStore(pool, schema) for _ in range(2)]
        schedulers = [one.start_scheduler() for one in stores]
        wait_until(lambda: {one.state for one in schedulers} == {"leading", "standby"})
        runners: list[Runner] = [
            stores[0].start_worker("emails", lambda _job: None),
            stores[0].start_outbox("events", lambda _message: None),
            *schedulers,
        ]
        wait_until(lambda: runners[0].state == runners[1].state == "working")
        caplog.clear()
    for one in stores:  # a standby would ask again some seconds later
        one._parts.hub.wake_here(SCHEDULER_LOCK)
    for runner in runners:
        assert runner.join(15)
        health = runner.health()
        assert (health.state, health.healthy) == ("stopped", False)
        assert "ended by itself: the pool of the store is closed" in str(health.reason)
        assert isinstance(runner.last_error, StoreClosed)
    told = [one.getMessage() for one in caplog.records if one.levelname == "ERROR"]
    assert sorted(one.split(":")[0] for one in told) == sorted(one.name for one in runners)
    assert "trying again" not in caplog.text
    for one in stores:
        one.close()
    assert len([one for one in caplog.records if one.levelname == "ERROR"]) == len(told)
