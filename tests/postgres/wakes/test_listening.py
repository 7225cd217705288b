"""Section 10 of the contract: wakes as an application sends and hears them."""

from __future__ import annotations

import gc
import threading
import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import psycopg
import pytest

from alkstore import (
    InvalidName,
    InvalidOption,
    Listener,
    NoTransaction,
    ReservedName,
    StopToken,
    StoreClosed,
    Wake,
)
from alkstore_postgres.store import PostgresStore
from alkstore_postgres.wakes.hub import WakeHub
from alkstore_postgres.wakes.listener import PostgresListener
from alkstore_postgres.wakes.waiters import Sink, Waiters
from tests.support.cursors import around_statements
from tests.support.timing import in_time
from tests.support.waiting import rest, wait_until

OpenStore = Callable[..., PostgresStore]

NAMES = [
    "x",
    "n" * 63,
    "n" * 64,
    "n" * 200,
    "é" * 100,
    "漢" * 66,
    "🐘",
    "it's",
    'a"; drop table jobs; --',
    "Upper Case",
    "%s %(x)s {0} {schema}",
    "back\\slash",
]


def in_thread(work: Callable[[], Any]) -> tuple[threading.Thread, list[Any]]:
    outcome: list[Any] = []
    thread = threading.Thread(target=lambda: outcome.append(work()))
    thread.start()
    return thread, outcome


@pytest.mark.parametrize("name", NAMES)
def test_a_wake_is_heard_on_any_name_within_the_limits(store: PostgresStore, name: str) -> None:
    """Field case B75."""
    listener = store.listen(name)
    store.notify(name)
    assert listener.wait(5) == Wake(name)


def test_names_that_share_their_first_63_bytes_do_not_cross(store: PostgresStore) -> None:
    """Field case B75."""
    listener = store.listen("n" * 63 + "a")
    store.notify("n" * 63 + "b")
    assert listener.wait(0.3) is None
    store.notify("n" * 63 + "a")
    assert listener.wait(5) is not None


def test_a_new_listener_hears_nothing_of_its_own(store: PostgresStore) -> None:
    for name in ("first", "second"):
        assert store.listen(name).wait(0.2) is None


def test_the_first_listener_hears_nothing_of_its_own_connection(
    store: PostgresStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    wake_all, attach = Waiters.wake_all, WakeHub.attach

    def late(waiters: Waiters) -> None:
        time.sleep(0.3)
        wake_all(waiters)

    def slowly(hub: WakeHub, name: str, sink: Sink, *, shared: bool = False) -> None:
        attach(hub, name, sink, shared=shared)
        wait_until(lambda: hub.state == "listening")

    monkeypatch.setattr(Waiters, "wake_all", late)
    monkeypatch.setattr(WakeHub, "attach", slowly)
    assert store.listen("first").wait(1) is None


def test_what_is_sent_once_listen_has_returned_is_heard(open_store: OpenStore) -> None:
    for _ in range(5):
        store = open_store()
        listener = store.listen("x")
        store.notify("x")
        assert listener.wait(5) == Wake("x")
        assert listener.wait(0.05) is None


def test_a_listener_hears_its_channels_and_no_other(store: PostgresStore) -> None:
    listener = store.listen("a", "b")
    for name in ("c", "b", "a"):
        store.notify(name)
    assert {listener.wait(5), listener.wait(5)} == {Wake("a"), Wake("b")}
    assert listener.wait(0.2) is None


def hear_all(store: PostgresStore) -> None:
    """Return when whatever was sent before has come to the listeners of the store."""
    with store.listen("the end") as listener:
        store.notify("the end")
        assert listener.wait(30) == Wake("the end")


def test_a_wake_that_nobody_waited_for_is_remembered_once(store: PostgresStore) -> None:
    listener = store.listen("a", "b")
    for _ in range(5):
        store.notify("a")
    store.notify("b")
    hear_all(store)
    assert [listener.wait(0), listener.wait(0)] == [Wake("a"), Wake("b")]
    assert listener.wait(0) is None


def test_no_channel_starves_behind_a_busy_one(store: PostgresStore) -> None:
    listener = store.listen("busy", "quiet")
    store.notify("busy")
    store.notify("quiet")
    hear_all(store)
    assert listener.wait(0) == Wake("busy")
    store.notify("busy")
    hear_all(store)
    assert listener.wait(0) == Wake("quiet")


def test_stores_in_different_schemas_do_not_hear_each_other(
    open_store: OpenStore, schema: str, connection: psycopg.Connection[Any]
) -> None:
    here = open_store()
    try:
        there = open_store(schema=schema + "_b")
        listener, other = here.listen("x"), there.listen("x")
        there.notify("x")
        assert other.wait(5) == Wake("x")
        assert listener.wait(0.3) is None
    finally:
        connection.execute(f'DROP SCHEMA IF EXISTS "{schema}_b" CASCADE')


def test_stores_of_one_schema_hear_each_other(open_store: OpenStore) -> None:
    listener = open_store().listen("x")
    open_store().notify("x")
    assert listener.wait(5) == Wake("x")


def test_a_wake_in_a_transaction_is_heard_after_its_commit(
    store: PostgresStore, conninfo: str
) -> None:
    listener = store.listen("x")
    with psycopg.connect(conninfo) as tx:
        store.notify_tx(tx, "x")
        assert listener.wait(0.3) is None
        tx.commit()
        assert listener.wait(5) == Wake("x")
        store.notify_tx(tx, "x")
        tx.rollback()
        assert listener.wait(0.3) is None


def test_a_wake_joins_no_transaction_that_is_not_there(
    store: PostgresStore, connection: psycopg.Connection[Any]
) -> None:
    with pytest.raises(NoTransaction):
        store.notify_tx(connection, "x")
    with pytest.raises(TypeError):
        store.notify_tx(object(), "x")


def test_the_name_is_checked_before_the_transaction(store: PostgresStore) -> None:
    with pytest.raises(InvalidName):
        store.notify_tx(object(), "")
    with pytest.raises(ReservedName):
        store.notify_tx(object(), "__alkstore_scheduler")


@pytest.mark.parametrize("name", ["", "n" * 201, "a\0b", "\ud800", 7, None])
def test_a_bad_name_is_refused_before_any_round_trip(
    store: PostgresStore, name: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent: list[object] = []
    around_statements(monkeypatch, lambda _: lambda *_, **__: sent.append(1))
    with pytest.raises(InvalidName):
        store.notify(name)
    with pytest.raises(InvalidName):
        store.listen("fine", name)
    assert store._parts.hub.state == "idle"
    assert not sent


def test_a_reserved_name_is_refused(store: PostgresStore) -> None:
    with pytest.raises(ReservedName):
        store.notify("__alkstore_scheduler")
    with pytest.raises(ReservedName):
        store.listen("__alkstore_outbox:mail")


def test_a_listener_needs_a_channel(store: PostgresStore) -> None:
    with pytest.raises(InvalidOption):
        store.listen()


@pytest.mark.parametrize("timeout", [-1, float("nan"), "5", True])
def test_a_bad_timeout_is_refused(store: PostgresStore, timeout: Any) -> None:
    with pytest.raises(InvalidOption):
        store.listen("x").wait(timeout)


@pytest.mark.parametrize("limit", [0, 0.2, timedelta(milliseconds=200)])
def test_a_wait_ends_at_its_time_limit(store: PostgresStore, limit: Any) -> None:
    listener = store.listen("x")

    def wait_in_vain() -> float:
        began = time.monotonic()
        assert listener.wait(limit) is None
        return time.monotonic() - began

    in_time(wait_in_vain, 0.3)


def test_a_wait_ends_within_100_ms_of_the_cancellation(store: PostgresStore) -> None:
    listener = store.listen("x")

    def cancel_a_wait() -> float:
        stop = StopToken()
        thread, outcome = in_thread(lambda: listener.wait(None, stop.child()))
        wait_until(lambda: parkers(listener))
        began = time.monotonic()
        stop.cancel()
        thread.join(30)
        took = time.monotonic() - began
        assert outcome == [None]
        return took

    in_time(cancel_a_wait, 0.1)


def test_closing_a_listener_ends_the_waits_of_other_threads(store: PostgresStore) -> None:
    listener = store.listen("x")
    waits = [in_thread(listener.wait) for _ in range(3)]
    iteration, heard = in_thread(lambda: list(listener))
    time.sleep(0.1)
    listener.close()
    listener.close()
    for thread, outcome in waits:
        thread.join(4)
        assert outcome == [None]
    iteration.join(4)
    assert heard == [[]]
    assert not store._parts.hub.waiters._sinks
    assert listener.wait() is None


def test_iteration_yields_wakes_until_the_close(store: PostgresStore) -> None:
    heard: list[Wake] = []
    with store.listen("x") as listener:
        store.notify("x")
        for wake in listener:
            heard.append(wake)
            if len(heard) == 3:
                break
            store.notify("x")
    assert heard == [Wake("x")] * 3
    assert list(listener) == []


def test_closing_the_store_ends_the_waits(store: PostgresStore) -> None:
    listener = store.listen("x")
    thread, outcome = in_thread(listener.wait)
    time.sleep(0.1)
    store.close()
    thread.join(4)
    assert outcome == [None]
    with pytest.raises(StoreClosed):
        store.notify("x")


def test_each_wake_goes_to_one_of_the_threads_that_wait(store: PostgresStore) -> None:
    listener = store.listen("x")
    waits = [in_thread(lambda: listener.wait(30)) for _ in range(4)]
    wait_until(lambda: len(parkers(listener)) == 4)
    store.notify("x")
    wait_until(lambda: any(outcome for _, outcome in waits))
    hear_all(store)
    rest(0.2)  # whoever else was woken would return by now
    listener.close()
    for thread, _ in waits:
        thread.join(30)
    assert [outcome[0] for _, outcome in waits].count(Wake("x")) == 1


def test_every_burst_wakes(store: PostgresStore, conninfo: str) -> None:
    """Field case B70: 10,000 notifications in a hundred bursts."""
    listener = store.listen("x")
    channel = store._parts.sender.channel
    with psycopg.connect(conninfo, autocommit=True) as sender:
        for _ in range(100):
            query = "SELECT pg_notify(%s, 'x') FROM generate_series(1, 100)"
            sender.execute(query, [channel])
            assert listener.wait(5) == Wake("x")


def test_one_connection_and_one_thread_listen_for_all(
    store: PostgresStore, connection: psycopg.Connection[Any]
) -> None:
    assert listeners() == 0
    several = [store.listen(f"x{number}", f"y{number}") for number in range(5)]
    assert listeners() == 1
    query = "SELECT count(*) FROM pg_stat_activity WHERE query LIKE %s AND pid <> pg_backend_pid()"
    channel = store._parts.sender.channel
    assert connection.execute(query, [f"LISTEN {channel}%"]).fetchone() == (1,)
    for listener in several:
        listener.close()
    store.close()
    wait_until(lambda: listeners() == 0, 1)


def listeners() -> int:
    return sum(thread.name == "alkstore-listener" for thread in threading.enumerate())


def parkers(listener: Listener) -> dict[int, Any]:
    assert isinstance(listener, PostgresListener)
    return listener._ear.parkers


def test_a_listener_that_is_dropped_without_close_leaves_the_hub(store: PostgresStore) -> None:
    waiters = store._parts.hub.waiters
    kept = store.listen("x")
    dropped = store.listen("x", "y")
    assert {name: len(sinks) for name, sinks in waiters._sinks.items()} == {"x": 2, "y": 1}
    del dropped
    gc.collect()
    assert {name: len(sinks) for name, sinks in waiters._sinks.items()} == {"x": 1}
    store.notify("x")
    assert kept.wait(5) == Wake("x")


def test_a_loop_over_a_listener_that_nobody_else_holds_goes_on(store: PostgresStore) -> None:
    wakes = iter(store.listen("x"))
    gc.collect()
    store.notify("x")
    assert next(wakes) == Wake("x")
