"""Two workers of a shop must never print the same month-end report.

The invariant: a lock has one holder at a time, whatever processes die, and the token that
comes with it only grows.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import time
from collections.abc import Callable
from multiprocessing.synchronize import Barrier
from typing import Any

import psycopg
import pytest
from psycopg import sql

import alkstore_postgres
from alkstore import LockTimeout
from alkstore_postgres.store import PostgresStore
from tests.support.timing import Stopwatch
from tests.support.waiting import wait_until

OpenStore = Callable[..., PostgresStore]

spawn = multiprocessing.get_context("spawn")

PROCESSES = 4
TURNS = 15


@pytest.fixture
def log(connection: psycopg.Connection[Any], schema: str, open_store: OpenStore) -> sql.Composable:
    """A table whose rows tell who was inside, and that refuses a second one."""
    open_store()
    inside = sql.Identifier(schema, "inside")
    connection.execute(sql.SQL("CREATE TABLE {} (one int PRIMARY KEY)").format(inside))
    turns = sql.Identifier(schema, "turns")
    connection.execute(
        sql.SQL("CREATE TABLE {} (id bigserial PRIMARY KEY, token bigint, who int)").format(turns)
    )
    return turns


def take_turns(conninfo: str, schema: str, who: int, barrier: Barrier) -> None:
    inside, turns = sql.Identifier(schema, "inside"), sql.Identifier(schema, "turns")
    with (
        alkstore_postgres.open(conninfo, schema) as store,
        psycopg.connect(conninfo, autocommit=True) as connection,
    ):
        barrier.wait(60)
        for _ in range(TURNS):
            with store.lock("report", 30, timeout=60) as lock:
                # Two holders at once would break the primary key.
                connection.execute(sql.SQL("INSERT INTO {} VALUES (1)").format(inside))
                query = sql.SQL("INSERT INTO {} (token, who) VALUES (%s, %s)").format(turns)
                connection.execute(query, [lock.token, who])
                connection.execute(sql.SQL("DELETE FROM {}").format(inside))


def test_processes_exclude_each_other_and_tokens_grow(
    conninfo: str,
    schema: str,
    log: sql.Composable,
    connection: psycopg.Connection[Any],
) -> None:
    barrier = spawn.Barrier(PROCESSES)
    processes = [
        spawn.Process(target=take_turns, args=(conninfo, schema, who, barrier))
        for who in range(PROCESSES)
    ]
    for process in processes:
        process.start()
    for process in processes:
        process.join(100)
    assert [process.exitcode for process in processes] == [0] * PROCESSES
    rows = connection.execute(sql.SQL("SELECT token FROM {} ORDER BY id").format(log)).fetchall()
    tokens = [token for (token,) in rows]
    assert len(tokens) == PROCESSES * TURNS
    assert tokens == sorted(set(tokens))


def hold_for_ever(conninfo: str, schema: str, keep_alive: bool) -> None:
    store = alkstore_postgres.open(conninfo, schema)
    assert store.try_lock("report", 15, keep_alive=keep_alive) is not None
    time.sleep(600)


@pytest.mark.parametrize("keep_alive", [False, True])
def test_a_killed_holder_frees_the_lock_after_its_ttl_and_not_before(
    conninfo: str, schema: str, open_store: OpenStore, keep_alive: bool
) -> None:
    """Field case B64."""
    store = open_store()
    process = spawn.Process(target=hold_for_ever, args=(conninfo, schema, keep_alive))
    process.start()
    try:
        wait_until(lambda: is_held(store), 30)
        assert process.pid is not None
        os.kill(process.pid, signal.SIGKILL)
    finally:
        process.kill()
        process.join(10)
    # What is left of its time passes at once, but for a moment.
    assert store.try_lock("report", 60) is None
    (ends,) = one(
        store,
        "UPDATE {} SET expires_at = clock_timestamp() + interval '0.5 s' WHERE owner IS NOT NULL"
        " RETURNING expires_at",
    )
    with Stopwatch() as watch:
        store.lock("report", 60, timeout=20)
    (taken,) = one(store, "SELECT acquired_at FROM {}")
    assert taken >= ends
    assert watch.seconds < 1.5


def test_a_frozen_holder_is_lost_when_it_thaws(
    conninfo: str, schema: str, open_store: OpenStore
) -> None:
    """Field case B01, for a lock: it must not believe that it still holds it."""
    store = open_store()
    ours, theirs = spawn.Pipe()
    process = spawn.Process(target=report_loss, args=(conninfo, schema, theirs))
    process.start()
    try:
        assert ours.poll(30)
        assert ours.recv() == "held"
        assert process.pid is not None
        os.kill(process.pid, signal.SIGSTOP)
        lock = store.lock("report", 60, timeout=10)
        before = row(store)
        os.kill(process.pid, signal.SIGCONT)
        assert ours.poll(10)
        assert ours.recv() == ("lost", False, False)
        assert row(store) == before
        assert lock.renew()
    finally:
        process.kill()
        process.join(10)


def report_loss(conninfo: str, schema: str, parent: Any) -> None:
    with alkstore_postgres.open(conninfo, schema) as store:
        lock = store.try_lock("report", 3, keep_alive=True)
        assert lock is not None
        parent.send("held")
        wait_until(lambda: lock.lost, 60)
        parent.send(("lost", lock.renew(), lock.release()))


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_the_childs_copy_of_a_held_lock_is_lost_and_does_nothing(
    open_store: OpenStore,
) -> None:
    store = open_store()
    lock = store.try_lock("report", 60, keep_alive=True)
    assert lock is not None
    before = row(store)
    pid = os.fork()
    if pid == 0:
        try:
            with pytest.raises(LockTimeout, match="was lost"), lock:
                pytest.fail("the child ran a block under its parent's lock")
            lock.__exit__(None, None, None)  # as where the block had begun before the fork
            good = lock.lost and not lock.renew() and not lock.release()
            os._exit(0 if good else 2)
        except BaseException:  # noqa: BLE001 - told by the exit code
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    assert row(store) == before
    assert not lock.lost
    assert lock.release()


def is_held(store: PostgresStore) -> bool:
    found = row(store)
    return found is not None and found[0] is not None


def row(store: PostgresStore) -> Any:
    return one(store, "SELECT owner, token, expires_at, xmin FROM {}")


def one(store: PostgresStore, text: str) -> Any:
    """Return the row that a statement about the locks returns."""
    table = sql.Identifier(store._parts.database.schema, "locks")
    with store.transaction() as tx:
        return tx.execute(sql.SQL(text).format(table)).fetchone()
