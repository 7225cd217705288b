"""The end of a program with a store: soon and quiet, whatever its threads do."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from collections.abc import Callable
from typing import Any

import psycopg
import pytest
from psycopg import sql

from alkstore.names import SCHEDULER_LOCK
from alkstore_postgres import embedded
from alkstore_postgres.database import ending
from tests.support.proxy import Proxy
from tests.support.timing import Control

IN_THREAD = "threading.Thread(target=target, daemon=True).start(); time.sleep(0.3)"
UNTIL_IT_LEADS = f"while not store._parts.leases.seconds_left({SCHEDULER_LOCK!r}): time.sleep(0.01)"


ENQUEUES = """
queue, stop = store.queue('q'), threading.Event()
def enqueue():
    try:
        while not stop.is_set():
            queue.enqueue(1)
    except alkstore.StoreClosed:
        pass
thread = threading.Thread(target=enqueue, daemon=True)
thread.start()
time.sleep(0.3)
"""
USES_A_HANDLE = """
def bye():
    time.sleep(0.3)  # the thread has met the closed store by then
    try:
        queue.enqueue('bye')
    except alkstore.StoreClosed:
        print('closed')
last.append(bye)
"""
JOINS = """
def bye():
    time.sleep(0.3)  # as well
    stop.set()
    thread.join()
last.append(bye)
"""

ENDINGS = {
    "falls off the end": ("pass", 0),
    "exits": ("sys.exit(0)", 0),
    "exits with a status": ("sys.exit(3)", 3),
    "within a transaction": ("own = store.transaction(); own.__enter__(); sys.exit(0)", 0),
    "while a handler runs": (
        "store.start_worker('q', lambda job: time.sleep(60)); time.sleep(0.3)",
        0,
    ),
    "while a scheduler leads": ("store.start_scheduler()\n" + UNTIL_IT_LEADS, 0),
    "while a thread runs the schedules": (
        "target = lambda: store.run_schedules(alkstore.StopToken())\n"
        + IN_THREAD
        + "\n"
        + UNTIL_IT_LEADS,
        0,
    ),
    "while a thread waits for a job": (
        "target = lambda: store.queue('none').claim_wait('w')\n" + IN_THREAD,
        0,
    ),
    "while a thread enqueues": (
        "target = lambda: [store.queue('q').enqueue(i) for i in range(10**6)]\n" + IN_THREAD,
        0,
    ),
    "while a thread listens": (
        "target = listener.wait\n" + IN_THREAD,
        0,
    ),
    "after it was dropped": ("del store, listener", 0),
    "after it was closed": ("store.close()", 0),
    "closed twice": ("store.close(); atexit.register(store.close)", 0),
    "while an exit function uses a handle": (ENQUEUES + USES_A_HANDLE, 0),
    "while an exit function waits for a thread": (ENQUEUES + JOINS, 0),
}

RESTS = {"while an exit function waits for a thread": ending.REST}
"""How much longer an end takes, in seconds, for which somebody waits who rests."""


@pytest.mark.parametrize("kind", ["own", "lent"])
@pytest.mark.parametrize("how", ENDINGS)
def test_an_interpreter_ends_soon_and_quietly(
    conninfo: str, connection: psycopg.Connection[Any], schema: str, how: str, kind: str
) -> None:
    """Field cases B22 and B81."""
    code, status = ENDINGS[how]
    took_longer, outcome = end(conninfo, schema, code, kind)
    assert outcome == (status, "")
    # A second, and the machine's share.
    assert took_longer < 1.5 + RESTS.get(how, 0.0)
    held = sql.SQL("SELECT name FROM {} WHERE expires_at > clock_timestamp()")
    assert not connection.execute(held.format(sql.Identifier(schema, "locks"))).fetchall()


RENEWS = """
lock = store.lock('l', 60)
def renew():
    try:
        while True:
            lock.renew()
    except alkstore.StoreClosed:
        pass
threading.Thread(target=renew, daemon=True).start()
time.sleep(0.3)
def bye():
    time.sleep(0.3)  # the thread has met the closed store by then
    try:
        lock.release()
    except alkstore.StoreClosed:
        print('closed')
last.append(bye)
"""


def test_an_exit_function_may_release_a_lock_that_a_thread_renews(
    conninfo: str, schema: str
) -> None:
    took_longer, outcome = end(conninfo, schema, RENEWS, "own")
    assert outcome == (0, "")
    assert took_longer < 1.5


RUNS = "store.start_scheduler(); store.start_worker('w', id); time.sleep(0.5)\n"
WAITS = "print('now', flush=True); input()\n"
CONNECTS = """
for _ in range(8):
    threading.Thread(target=store.queue('q').size, daemon=True).start()
time.sleep(0.5)
"""


@pytest.mark.parametrize("meanwhile", ["", CONNECTS], ids=["idle", "connecting"])
def test_an_interpreter_ends_soon_and_quietly_when_the_database_is_silent(
    conninfo: str, schema: str, meanwhile: str
) -> None:
    with Proxy(conninfo) as proxy:
        code = RUNS + WAITS + meanwhile
        took_longer, outcome = end(proxy.conninfo, schema, code, "own", proxy.stall)
    assert outcome == (0, "")
    assert took_longer < 3


def test_an_interpreter_ends_soon_when_the_database_is_down(
    own_server: embedded.EmbeddedServer, schema: str
) -> None:
    took_longer, (status, told) = end(
        own_server.url, schema, RUNS + WAITS, "own", lambda: own_server.halt("immediate")
    )
    assert status == 0
    assert took_longer < 3
    # That it is down may be told, in a line for each of those that have noticed.
    assert "Traceback" not in told
    assert "couldn't stop" not in told


def end(
    conninfo: str, schema: str, code: str, kind: str, between: Callable[[], None] | None = None
) -> tuple[float, tuple[int, str]]:
    """Run a program that never closes its store.

    Returns:
        How much longer its end took than that of a program without a store, its exit status
        and what it wrote to its standard error.
    """
    script = f"""
        import atexit, sys, threading, time
        import alkstore
        import alkstore_postgres
        from psycopg_pool import ConnectionPool
        last = []  # runs after what the store does at exit
        atexit.register(lambda: [one() for one in last])
        if {kind!r} == "own":
            store = alkstore_postgres.open({conninfo!r}, {schema!r})
        else:
            pool = ConnectionPool({conninfo!r}, min_size=1, open=True, name="lent")
            pool.wait()
            atexit.register(pool.close)  # psycopg's own advice since Python 3.13
            store = alkstore_postgres.PostgresStore(pool, {schema!r})
        store.queue("q").enqueue(1)
        listener = store.listen("channel")
        # The last one to run: what the store does at exit comes later.
        atexit.register(lambda: print("ends", flush=True))
    """
    process = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(script) + code],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    with Control() as control, process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        if between is not None:
            assert process.stdout.readline() == "now\n"
            between()
            process.stdin.write("\n")
            process.stdin.flush()
        while (line := process.stdout.readline()) != "ends\n":
            assert line, process.stderr.read()
        try:
            took_longer = control.end_beside(process)
        finally:
            process.kill()  # one that hangs is not waited for
        return took_longer, (process.returncode, process.stderr.read())
