"""The end of a store: closed as often as one likes, by whoever, amid whatever."""

from __future__ import annotations

import gc
import inspect
import threading
import time
import weakref
from collections.abc import Callable
from typing import Any

import psycopg
import pytest
from psycopg_pool import ConnectionPool

import alkstore
import alkstore_postgres
from alkstore import StopToken, StoreClosed
from alkstore_postgres import PostgresStore
from alkstore_postgres.database.own_pool import OwnPool
from alkstore_postgres.database.pools import AnyPool, Pools
from alkstore_postgres.wakes.hub import WakeHub
from tests.support.waiting import wait_until

CALLS: dict[str, Callable[[PostgresStore, Any], object]] = {
    "queue": lambda store, _: store.queue("q"),
    "outbox": lambda store, _: store.outbox("o"),
    "get_job": lambda store, _: store.get_job(1),
    "transaction": lambda store, _: store.transaction().__enter__(),
    "enqueue_tx": lambda store, tx: store.enqueue_tx(tx, "q", 1),
    "outbox_enqueue_tx": lambda store, tx: store.outbox_enqueue_tx(tx, "o", 1),
    "notify_tx": lambda store, tx: store.notify_tx(tx, "c"),
    "notify": lambda store, _: store.notify("c"),
    "listen": lambda store, _: store.listen("c"),
    "try_lock": lambda store, _: store.try_lock("l", 1),
    "lock": lambda store, _: store.lock("l", 1),
    "schedule": lambda store, _: store.schedule("s", "@every 1h", "q", 1),
    "unschedule": lambda store, _: store.unschedule("s"),
    "schedules": lambda store, _: store.schedules(),
    "get_schedule": lambda store, _: store.get_schedule("s"),
    "pause": lambda store, _: store.pause("s"),
    "resume": lambda store, _: store.resume("s"),
    "run_now": lambda store, _: store.run_now("s"),
    "tick": lambda store, _: store.tick(),
    "run_schedules": lambda store, _: store.run_schedules(StopToken()),
    "start_scheduler": lambda store, _: store.start_scheduler(),
    "start_worker": lambda store, _: store.start_worker("q", lambda _: None),
    "start_outbox": lambda store, _: store.start_outbox("o", lambda _: None),
}


def test_every_entry_point_of_a_store_is_known_here() -> None:
    public = {
        name
        for name, member in inspect.getmembers(PostgresStore)
        if not name.startswith("_") and callable(member)
    }
    assert public == {*CALLS, "close"}


@pytest.mark.parametrize("name", CALLS)
def test_a_closed_store_refuses(store: PostgresStore, conninfo: str, name: str) -> None:
    store.close()
    assert store.closed
    with psycopg.connect(conninfo) as tx, pytest.raises(alkstore.StoreClosed):
        CALLS[name](store, tx)


def test_what_a_closed_store_has_handed_out_refuses(store: PostgresStore) -> None:
    queue, outbox = store.queue("q"), store.outbox("o")
    queue.enqueue(1)
    handle = queue.claim("w")[0]
    lock = store.lock("l", ttl=30)
    store.close()
    calls: list[Callable[[], object]] = [
        lambda: queue.enqueue(1),
        lambda: queue.enqueue_many([1]),
        lambda: queue.claim("w"),
        lambda: queue.claim_wait("w", timeout=5),
        queue.stats,
        queue.dead,
        handle.ack,
        lambda: handle.retry("x"),
        handle.heartbeat,
        lambda: outbox.enqueue(1),
        lambda: outbox.run_once("w", lambda _: None),
        lock.renew,
        lock.release,
    ]
    for call in calls:
        with pytest.raises(alkstore.StoreClosed):
            call()


def test_it_may_be_closed_often_and_from_many_threads_at_once(store: PostgresStore) -> None:
    store.start_scheduler()
    store.start_worker("q", lambda _: None, concurrency=3)
    store.listen("c")
    store.queue("q").enqueue(1)
    barrier = threading.Barrier(8)
    failures: list[BaseException] = []

    def close() -> None:
        barrier.wait()
        try:
            store.close()
            assert store.closed
        except BaseException as error:  # noqa: BLE001 - told below
            failures.append(error)

    threads = [threading.Thread(target=close) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)
    store.close()
    assert not failures


def test_closing_amid_calls_ends_them_with_their_result_or_as_closed(
    open_store: Callable[..., PostgresStore],
) -> None:
    for _ in range(10):
        store = open_store()
        outcomes: list[object] = []
        begun = threading.Barrier(5)
        threads = [
            threading.Thread(target=enqueue_until_closed, args=[store, begun, outcomes])
            for _ in range(4)
        ]
        for thread in threads:
            thread.start()
        begun.wait()
        time.sleep(0.05)
        store.close()
        for thread in threads:
            thread.join(10)
            assert not thread.is_alive()
        errors = [outcome for outcome in outcomes if not isinstance(outcome, int)]
        assert all(isinstance(error, alkstore.StoreClosed) for error in errors), errors


def enqueue_until_closed(
    store: PostgresStore, begun: threading.Barrier, outcomes: list[object]
) -> None:
    begun.wait()
    try:
        while True:
            outcomes.append(store.queue("q").enqueue(1))
    except Exception as error:  # noqa: BLE001 - the outcome
        outcomes.append(error)


def test_a_first_call_amid_the_close_leaves_no_pool_behind(conninfo: str, schema: str) -> None:
    for _ in range(20):
        store = alkstore_postgres.open(conninfo, schema)  # its pool is made by the first call
        threads = [threading.Thread(target=lambda s=store: attempt(s)) for _ in range(2)]
        for thread in threads:
            thread.start()
        store.close()
        for thread in threads:
            thread.join(10)
        assert store._pools._pool is None
    workers = [one for one in threading.enumerate() if one.name.startswith("alkstore-worker")]
    for worker in workers:
        worker.join(5)
        assert not worker.is_alive()


def attempt(store: PostgresStore) -> None:
    try:
        store.queue("q").size()
    except alkstore.StoreClosed:
        return


def test_whoever_waits_is_told_before_the_pool_has_ended(
    store: PostgresStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a silent database that takes seconds."""
    ended = threading.Event()
    close = OwnPool.close

    def closing(pool: OwnPool, timeout: float = 5.0) -> None:
        assert ended.wait(10)
        close(pool, timeout)

    def wait() -> None:
        with pytest.raises(StoreClosed):
            store.queue("q").claim_wait("worker", timeout=60)
        ended.set()

    monkeypatch.setattr(OwnPool, "close", closing)
    waiter = threading.Thread(target=wait)
    waiter.start()
    wait_until(lambda: "q" in store._parts.hub.waiters._shared)
    time.sleep(0.1)  # it has looked once and sleeps
    store.close()
    waiter.join()
    assert ended.is_set()


def test_whoever_begins_to_wait_for_a_connection_as_the_pool_is_closed_is_told(
    store: PostgresStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The pool looks whether it is open before it takes its lock."""
    pool = store._parts.database._pools.current()
    looked, closed = threading.Event(), threading.Event()
    look, close = ConnectionPool._check_open_getconn, ConnectionPool.close

    def looking(pool: AnyPool) -> None:
        look(pool)
        looked.set()
        assert closed.wait(10)

    def closing(pool: AnyPool, timeout: float = 5.0) -> None:
        close(pool, timeout)
        closed.set()

    told: list[float] = []

    def ask() -> None:
        with pytest.raises(StoreClosed):
            store.queue("q").size()
        told.append(time.monotonic())

    held = [pool.getconn() for _ in range(pool.max_size)]
    monkeypatch.setattr(ConnectionPool, "_check_open_getconn", looking)
    monkeypatch.setattr(ConnectionPool, "close", closing)
    asker = threading.Thread(target=ask)
    asker.start()
    assert looked.wait(10)
    began = time.monotonic()
    store.close()
    asker.join()
    assert told[0] - began < 5, "and not when the time for a check-out is over"
    for connection in held:
        pool.putconn(connection)


def test_an_interrupt_amid_the_close_leaves_no_pool_behind(
    store: PostgresStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.queue("q").enqueue(1)
    pool = store._parts.database._pools.current()

    def interrupted(_hub: WakeHub) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(WakeHub, "close", interrupted)
        with pytest.raises(KeyboardInterrupt):
            store.close()
    assert pool.closed
    store.close()


def test_a_signal_handler_that_closes_while_the_pool_is_made_leaves_none_behind(
    conninfo: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    pools = Pools(None, conninfo, {})
    made: list[AnyPool] = []
    make = Pools._make

    def interrupted(self: Pools) -> AnyPool:
        made.append(make(self))
        self.close()
        return made[-1]

    monkeypatch.setattr(Pools, "_make", interrupted)
    with pytest.raises(StoreClosed):
        pools.current()
    assert made[0].closed
    with pytest.raises(StoreClosed):
        pools.current()


def test_a_lent_pool_stays_open(conninfo: str, schema: str) -> None:
    with ConnectionPool(conninfo, min_size=1, open=True) as pool:
        with PostgresStore(pool, schema) as store:
            store.queue("q").enqueue(1)
        assert not pool.closed
        with PostgresStore(pool, schema) as again:
            assert again.queue("q").size() == 1


def everything_at_once(store: PostgresStore) -> None:
    """Use each part of a store that holds others."""
    queue = store.queue("mail")
    queue.enqueue(1)
    store.outbox("events").enqueue(1)
    store.schedule("s", "@every 1h", "q", 1)
    (handle,) = queue.claim("w")
    assert handle.ack()
    with store.transaction() as own:
        store.enqueue_tx(own, "mail", 2)
    with store.lock("l", 10, keep_alive=True), store.listen("c") as listener:
        store.notify("c")
        assert listener.wait(10) is not None
    runners = [
        store.start_worker("mail", lambda _: None, 2),
        store.start_outbox("events", lambda _: None),
        store.start_scheduler(),
    ]
    wait_until(lambda: queue.size() == 0)
    wait_until(lambda: runners[2].state == "leading")
    assert all(one.health().healthy and one.stop(5) for one in runners)


@pytest.mark.parametrize("kind", ["own", "lent"])
def test_a_store_that_is_dropped_is_gone_at_once(conninfo: str, schema: str, kind: str) -> None:
    """Nothing of it holds itself.

    A pool that only the collector finds waits, at a moment that the collector chooses, for
    threads that may not run any more: at the interpreter's end for one.
    """
    if kind == "own":
        store = alkstore_postgres.open(conninfo, schema)
        pool = weakref.ref(store._pools.current())
    else:
        lent = ConnectionPool(conninfo, min_size=1, open=True)
        store = PostgresStore(lent, schema)
        pool = weakref.ref(lent)
        del lent
    gc.collect()
    gc.disable()
    try:
        everything_at_once(store)
        store.close()  # its listener would go on
        whole = weakref.ref(store)
        del store
        wait_until(lambda: whole() is None and pool() is None)
    finally:
        gc.enable()
