"""A web server opens its store, then forks its workers.

The promise (field case B80): the store works in every child, over connections of its own,
and whatever a child does leaves the parent's connections, runners and leases alone.

Each scenario runs in a fresh interpreter, so that what is forked is an application and not
the test runner.
"""

from __future__ import annotations

import gc
import multiprocessing
import os
import socket
import sys
import threading
import time
import warnings
from collections.abc import Callable
from typing import Any

import psycopg
import pytest
from psycopg.conninfo import make_conninfo
from psycopg_pool import ConnectionPool, NullConnectionPool

import alkstore
import alkstore_postgres
from alkstore_postgres import PostgresStore
from tests.support.forks import in_fork
from tests.support.processes import Children, Parent
from tests.support.waiting import wait_until

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="this platform does not fork")


@pytest.fixture
def run(conninfo: str, schema: str) -> Any:
    """Run a scenario in an interpreter of its own, to its good end."""

    def run_one(scenario: Callable[..., None], *arguments: Any) -> str:
        with Children() as children:
            child = children.start(scenario, conninfo, schema, *arguments)
            child.finish(90)
            return child.errors()

    return run_one


KINDS = ["own", "lent", "lent, not autocommit", "lent, without standing connections"]


def make(conninfo: str, schema: str, kind: str) -> PostgresStore:
    if kind == "own":
        return alkstore_postgres.open(conninfo, schema)
    if kind == "lent, without standing connections":
        return PostgresStore(NullConnectionPool(conninfo, open=True), schema)
    options = {"autocommit": kind == "lent"}
    pool = ConnectionPool(conninfo, min_size=2, max_size=4, kwargs=options, open=True)
    pool.wait()
    return PostgresStore(pool, schema)


def backend(store: PostgresStore) -> int:
    """Return the server's process of a connection of the pool."""
    with store.transaction() as own:
        row = own.execute("SELECT pg_backend_pid()").fetchone()
        assert row is not None
        pid: int = row[0]
        return pid


def use(store: PostgresStore) -> list[int]:
    """Use the store in every way, and say which server processes did it."""
    queue = store.queue("mail")
    queue.enqueue(1)
    handle = queue.claim("w")[0]
    assert handle.ack()
    with store.lock(f"lock {os.getpid()}", ttl=5):
        pass
    store.schedule(f"s {os.getpid()}", "@every 1h", "mail", 1)
    with store.transaction() as own:
        store.enqueue_tx(own, "other", 1)
    listener = store.listen("channel")
    store.notify("channel")
    assert listener.wait(5) is not None
    listener.close()
    done = threading.Event()
    runner = store.start_worker("work", lambda _: done.set())
    store.queue("work").enqueue(1)
    assert done.wait(10)
    assert runner.stop(5)
    return [backend(store) for _ in range(3)]


def living(store: PostgresStore) -> set[int]:
    """Return the process ids of all sessions of the server."""
    rows = store._parts.database.fetch_all(b"SELECT pid FROM pg_catalog.pg_stat_activity")
    return {row[0] for row in rows}


@pytest.mark.parametrize("orderly", [False, True], ids=["killed", "orderly"])
@pytest.mark.parametrize("kind", KINDS)
def test_children_work_and_the_parent_goes_on(run: Any, kind: str, orderly: bool) -> None:
    errors = run(parent_and_children, kind, orderly)
    assert "Traceback" not in errors
    assert "couldn't stop thread" not in errors


def parent_and_children(_: Parent, conninfo: str, schema: str, kind: str, orderly: bool) -> None:
    store = make(conninfo, schema, kind)
    own = set(use(store))
    for _number in range(4):
        pids = in_fork(lambda: use(store), orderly=orderly)
        if kind != "lent, without standing connections":
            assert own.isdisjoint(pids), "the child has used a connection of the parent's"
            assert own <= living(store), "the parent has lost its connections"
        use(store)
    store.close()


def test_a_handle_that_was_claimed_before_settles_in_the_child(run: Any) -> None:
    run(claimed_before)


def claimed_before(_: Parent, conninfo: str, schema: str) -> None:
    store = make(conninfo, schema, "own")
    queue = store.queue("mail")
    queue.enqueue_many([1, 2])
    handles = queue.claim("w", 2)

    def child() -> list[int]:
        return [queue.heartbeat_many(handles), queue.ack_many(handles[:1])]

    assert in_fork(child) == [2, 1]
    assert queue.ack_many(handles) == 1
    assert [handle.lost for handle in handles] == [True, False]
    store.close()


def test_a_child_that_closes_the_store_closes_its_own(run: Any) -> None:
    run(child_closes)


def child_closes(_: Parent, conninfo: str, schema: str) -> None:
    for kind in KINDS:
        store = make(conninfo, schema, kind)
        own = set(use(store))

        def close(store: PostgresStore = store) -> None:
            store.close()
            with pytest.raises(alkstore.StoreClosed):
                store.queue("mail").enqueue(1)

        def use_and_close(store: PostgresStore = store) -> None:
            use(store)
            close(store)

        for call in (close, use_and_close):
            in_fork(call, orderly=True)
            assert not store.closed
            if kind != "lent, without standing connections":
                assert own <= living(store)
            use(store)
        store.close()


def test_no_byte_of_a_child_reaches_a_socket_of_the_parents(run: Any) -> None:
    run(watched_sockets)


def watched_sockets(_: Parent, conninfo: str, schema: str) -> None:
    """The server counts the bytes that it gets; here the kernel does."""
    store = make(conninfo, schema, "own")
    listener = store.listen("channel")
    use(store)
    before = bytes_sent(store)
    assert before

    def child() -> None:
        use(store)
        gc.collect()
        store.close()

    in_fork(child, orderly=True)
    time.sleep(0.2)
    assert bytes_sent(store) == before
    listener.close()
    store.close()


def bytes_sent(store: PostgresStore) -> dict[int, int]:
    """Return how many bytes each pooled connection has sent, as the kernel knows."""
    pool = store._pools.current()
    sent = {}
    for connection in list(pool._pool):
        with socket.socket(fileno=os.dup(connection.fileno())) as one:
            # struct tcp_info: tcpi_bytes_acked lies at offset 120 since Linux 4.2.
            info = one.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 232)
            sent[connection.info.backend_pid] = int.from_bytes(info[120:128], sys.byteorder)
    return sent


def test_forking_while_threads_enqueue_hangs_nobody(run: Any) -> None:
    run(hammered)


def hammered(_: Parent, conninfo: str, schema: str) -> None:
    store = make(conninfo, schema, "own")
    stop = threading.Event()
    counts = [0] * 4
    failures: list[BaseException] = []

    def produce(number: int) -> None:
        queue = store.queue(f"hammer {number}")
        try:
            while not stop.is_set():
                queue.enqueue(1)
                counts[number] += 1
        except BaseException as error:  # noqa: BLE001 - told below
            failures.append(error)

    threads = [threading.Thread(target=produce, args=[number]) for number in range(4)]
    for thread in threads:
        thread.start()
    runner = store.start_worker("hammer 0", lambda _: None, concurrency=2)
    scheduler = store.start_scheduler()
    store.schedule("s", "@every 1s", "fires", 1)

    def child() -> int:
        queue = store.queue("children")
        return len([queue.enqueue(1) for _ in range(3)])

    forks = [in_fork(child, orderly=number % 2 == 0) for number in range(50)]
    stop.set()
    for thread in threads:
        thread.join(10)
        assert not thread.is_alive()
    assert not failures
    assert sum(forks) == store.queue("children").size() == 150
    for number in (1, 2, 3):
        assert store.queue(f"hammer {number}").size() == counts[number]
    wait_until(lambda: store.queue("hammer 0").size() == 0, 60)
    assert runner.last_error is None
    assert scheduler.last_error is None
    store.close()


def test_runners_and_leases_stay_with_the_parent(run: Any) -> None:
    run(runners)


def runners(_: Parent, conninfo: str, schema: str) -> None:
    store = make(conninfo, schema, "own")
    scheduler = store.start_scheduler()
    worker = store.start_worker("mail", lambda _: None)
    relay = store.start_outbox("events", lambda _: None)
    kept = store.try_lock("kept", ttl=2, keep_alive=True)
    assert kept is not None
    wait_until(lambda: scheduler.state == "leading")

    def child() -> None:
        for runner in (scheduler, worker, relay):
            assert runner.state == "stopped"
            health = runner.health()
            assert not health.healthy
            assert f"process {os.getppid()}" in str(health.reason)
            assert runner.stop(1)
            assert runner.join(1)
        assert not kept.release(), "a child has released the parent's lock"
        own = store.start_scheduler()
        assert own is not scheduler
        wait_until(lambda: own.state == "standby")
        store.close()

    for orderly in (False, True):
        in_fork(child, orderly=orderly)
        for runner in (scheduler, worker, relay):
            assert runner.health().healthy, runner.health()
        assert scheduler.state == "leading"
    time.sleep(2.5)  # longer than the lock's time: its thread is the parent's
    assert kept.renew()
    assert kept.release()
    store.close()


def test_children_of_children_work(run: Any) -> None:
    run(generations)


def generations(_: Parent, conninfo: str, schema: str) -> None:
    store = make(conninfo, schema, "own")

    def child() -> list[int]:
        return [in_fork(lambda: backend(store)), backend(store)]

    own = backend(store)
    pids = in_fork(lambda: [backend(store), *child()])
    assert pids[1] not in {pids[0], pids[2], own}
    assert own not in pids
    assert backend(store)
    store.close()


def test_a_fork_amid_a_transaction_leaves_it_to_the_parent(run: Any) -> None:
    run(amid_transaction)


def amid_transaction(_: Parent, conninfo: str, schema: str) -> None:
    store = make(conninfo, schema, "own")
    with store.transaction() as own:
        kept = store.enqueue_tx(own, "mail", 1)
        other = in_fork(lambda: store.queue("mail").enqueue(2))
        own.execute("SELECT 1")
    assert store.get_job(kept) is not None
    assert store.get_job(other) is not None
    store.close()


def test_a_store_that_was_never_used_before_the_fork_works(run: Any) -> None:
    run(unused)


def unused(_: Parent, conninfo: str, schema: str) -> None:
    store = make(conninfo, schema, "own")
    in_fork(lambda: len(use(store)), orderly=True)
    use(store)
    store.close()


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_multiprocessing_works_with_every_start_method(run: Any, method: str) -> None:
    run(with_multiprocessing, method)


def with_multiprocessing(_: Parent, conninfo: str, schema: str, method: str) -> None:
    store = make(conninfo, schema, "own")
    use(store)
    context: Any = multiprocessing.get_context(method)
    target: Callable[..., None] = work_inherited if method == "fork" else work_anew
    global inherited  # noqa: PLW0603 - as the global of an application
    inherited = store
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".*multi-threaded.*fork", DeprecationWarning)
        processes = [context.Process(target=target, args=[conninfo, schema]) for _ in range(4)]
        for process in processes:
            process.start()
    for process in processes:
        process.join(30)
        assert process.exitcode == 0
    assert store.queue("children").size() == 800
    use(store)
    store.close()


inherited: PostgresStore | None = None


def work_inherited(_conninfo: str, _schema: str) -> None:
    assert inherited is not None
    work(inherited)


def work_anew(conninfo: str, schema: str) -> None:
    with alkstore_postgres.open(conninfo, schema) as store:
        work(store)


def work(store: PostgresStore) -> None:
    queue = store.queue("children")
    for number in range(200):
        queue.enqueue(number)


def test_the_configuration_of_a_lent_pool_holds_in_the_child(run: Any) -> None:
    run(configured)


def configured(_: Parent, conninfo: str, schema: str) -> None:
    def configure(connection: psycopg.Connection[Any]) -> None:
        connection.row_factory = psycopg.rows.dict_row

    told = make_conninfo(conninfo, application_name="of the application")
    with ConnectionPool(told, min_size=1, configure=configure, open=True) as pool:
        store = PostgresStore(pool, schema)

        def child() -> Any:
            with store.transaction() as own:
                return own.execute("SELECT current_setting('application_name') AS x").fetchone()

        assert in_fork(child) == {"x": "of the application"}
        store.close()
