"""A cluster whose processes are killed, frozen and cut off at random fires exactly once.

The user's story: several application processes run a scheduler each, on machines with wrong
clocks, and all that can happen to a process happens. The invariant: the ledger of (schedule,
boundary) shows every boundary once, none missing, none twice (field cases B01, B02, B07, B16,
B29, B39, B44, B120, B126).

``ALKSTORE_CHAOS_SECONDS`` makes it last longer; from 60 s on with the real TTL of 10 s.
"""

from __future__ import annotations

import math
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from functools import partial
from signal import Signals
from typing import Any

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from alkstore_postgres.scheduler.tick import Ticker
from alkstore_postgres.store import PostgresStore
from tests.support.leading import owner_of
from tests.support.proxy import Proxy
from tests.support.schedules import ScheduleTable, grid
from tests.support.timing import in_time
from tests.support.waiting import wait_until

SECONDS = float(os.environ.get("ALKSTORE_CHAOS_SECONDS", "20"))
TTL = 10.0 if SECONDS >= 60 else 2.0
NODES = 4
SCHEDULES = {f"s{number}": 1 + number % 3 for number in range(12)}


ORDERLY = {0, -signal.SIGTERM}
"""How a process ends that was asked to: in order, or before it could say that it listens."""

END = 20.0
"""How long a process may take to end, in seconds: a connection attempt into silence takes ten."""


class Node:
    """One place in the cluster, with its own way to the server, and the process at it.

    A process that was asked to end is not waited for: another takes its place at once, and it
    has to find its way out, whatever the network does meanwhile.
    """

    def __init__(self, conninfo: str, schema: str, clock_error: float) -> None:
        self.name = f"node {clock_error}"
        self._way = Proxy(make_conninfo(conninfo, application_name=self.name))
        self._schema = schema
        self._clock_error = clock_error
        self._ending: list[subprocess.Popen[bytes]] = []
        self._start()

    def _collect(self, process: subprocess.Popen[bytes]) -> int | None:
        """Return how a process has ended; one that does not end is killed, and is ``None``."""
        try:
            return process.wait(END)
        except subprocess.TimeoutExpired:
            return None
        finally:
            process.kill()
            process.communicate()

    def _start(self) -> None:
        self._process = subprocess.Popen(
            [
                sys.executable, "-m", "tests.support.scheduler_process", self._way.conninfo,
                self._schema, str(TTL), str(self._clock_error),
            ],
            stdin=subprocess.PIPE,  # its end tells the process that the test is gone
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )  # fmt: skip

    def send(self, number: Signals) -> None:
        self._process.send_signal(number)

    def restart(self, number: Signals) -> None:
        """Send a signal that ends the process, and start another in its place."""
        self.send(number)
        self.send(signal.SIGCONT)
        if number == signal.SIGKILL:
            self._collect(self._process)
        else:
            self._ending.append(self._process)
        self._start()

    def cut(self) -> None:
        self._way.cut()

    def fall_silent(self) -> None:
        self._way.stall()

    def speak(self) -> None:
        self._way.revive()

    def close(self) -> list[int | None]:
        """End the process; return how it, and those that were asked to end before, have ended.

        May be repeated.
        """
        try:
            self.send(signal.SIGCONT)
            self.send(signal.SIGTERM)
            return [self._collect(process) for process in (*self._ending, self._process)]
        finally:
            self._way.close()


@pytest.fixture
def nodes(store: PostgresStore, conninfo: str, schema: str) -> Iterator[list[Node]]:
    """Four processes with clocks that are wrong by minutes in both directions."""
    del store
    running = [Node(conninfo, schema, error) for error in (-300.0, -90.0, 0.0, 120.0)]
    yield running
    for node in running:
        node.close()


def terminate_backends(connection: psycopg.Connection[Any], schema: str) -> None:
    connection.execute(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid()"
        " AND application_name LIKE 'node %%' AND position(%s in query) > 0",
        [schema],
    )


def chaos(
    nodes: list[Node], connection: psycopg.Connection[Any], schema: str, dice: random.Random
) -> Counter[str]:
    """Do things to the nodes for `SECONDS`; return what was done how often."""
    done: Counter[str] = Counter()
    pending: list[tuple[float, Callable[[], None]]] = []
    end = time.monotonic() + SECONDS
    actions = ["kill", "stop", "freeze", "silence", "cut", "terminate"]
    while time.monotonic() < end:
        time.sleep(dice.uniform(0.1, 0.6) * min(TTL / 2, 3))
        now = time.monotonic()
        for due, undo in [entry for entry in pending if entry[0] <= now]:
            undo()
            pending.remove((due, undo))
        node = dice.choice(nodes)
        action = dice.choice(actions)
        done[action] += 1
        if action == "kill":
            node.restart(signal.SIGKILL)
        elif action == "stop":
            node.restart(signal.SIGTERM)
        elif action == "freeze":
            node.send(signal.SIGSTOP)
            pending.append((now + dice.uniform(0.1, 3 * TTL), partial(node.send, signal.SIGCONT)))
        elif action == "silence":
            node.fall_silent()
            pending.append((now + dice.uniform(0.1, 2 * TTL), node.speak))
        elif action == "cut":
            node.cut()
        else:
            terminate_backends(connection, schema)
    for _, undo in pending:
        undo()
    return done


@pytest.mark.slow
@pytest.mark.timeout(180 + 3 * SECONDS)
def test_every_boundary_fires_exactly_once_whatever_happens_to_the_processes(
    *,
    store: PostgresStore,
    nodes: list[Node],
    table: ScheduleTable,
    connection: psycopg.Connection[Any],
    schema: str,
    record_property: Callable[[str, object], None],
) -> None:
    dice = random.Random()
    seed = dice.randrange(10**6)
    dice.seed(seed)
    first = {}
    for name, seconds in SCHEDULES.items():
        made = store.schedule(name, f"@every {seconds}s", name, 1)
        assert made.next_fire_at is not None
        first[name] = made.next_fire_at
    wait_until(lambda: table.jobs() > 0, timeout=30)
    done = chaos(nodes, connection, schema, dice)
    # Left alone, somebody leads again and goes on.
    seen = table.jobs()
    wait_until(lambda: table.jobs() > seen + len(SCHEDULES), timeout=4 * TTL + 30)
    ends = [end for node in nodes for end in node.close()]
    assert set(ends) <= ORDERLY, ends
    parts = store._parts
    Ticker(parts.database, parts.leases, parts.sender.channel, ttl=10.0).tick(None)

    ledger = table.ledger()
    expected = set()
    for name, seconds in SCHEDULES.items():
        interval = timedelta(seconds=seconds)
        following = table.value(name, "next_fire_at")
        expected |= {
            (name, at) for at in grid(first[name], interval, (following - first[name]) // interval)
        }
    missed, twice = expected - set(ledger), [key for key, count in ledger.items() if count > 1]
    figures = (
        f"seed {seed}, {SECONDS:g} s, {NODES} processes, {dict(done)}: {len(expected)} boundaries "
        f"due, {sum(ledger.values())} fired, {len(twice)} twice, {len(missed)} missed"
    )
    print(figures)  # noqa: T201 - the figures of the run
    record_property("cluster", figures)
    assert set(ledger) == expected, figures
    assert twice == [], figures
    assert {schedule.skipped for schedule in store.schedules()} == {0}, figures
    assert {schedule.quarantine for schedule in store.schedules()} == {None}


def leader_of(nodes: list[Node], table: ScheduleTable) -> Node:
    """Return the process that renewed the lease last."""

    def last() -> str | None:
        row = table.run(
            "SELECT application_name FROM pg_stat_activity WHERE pid <> pg_backend_pid()"
            " AND position('renewed AS' in query) > 0 AND position(%s in query) > 0"
            " ORDER BY query_start DESC LIMIT 1",
            table._schema,
        ).fetchone()
        return None if row is None else row[0]

    found: list[Node] = []

    def look() -> bool:
        name = last()
        found.extend(node for node in nodes if node.name == name)
        return bool(found)

    wait_until(look, timeout=30)
    return found[0]


@pytest.mark.slow
def test_a_killed_leader_is_replaced_within_the_ttl_and_a_second(
    store: PostgresStore, nodes: list[Node], table: ScheduleTable
) -> None:
    store.schedule("s", "@every 1s", "s", 1)

    def replace() -> float:
        wait_until(lambda: owner_of(table), timeout=30)
        leader = leader_of(nodes, table)
        led_by = owner_of(table)
        leader.send(signal.SIGKILL)
        ends = table.run("SELECT expires_at FROM {locks} WHERE owner = %s", led_by).fetchone()
        wait_until(lambda: owner_of(table) != led_by, timeout=30)
        taken = table.run("SELECT acquired_at FROM {locks}").fetchone()
        seen = table.jobs()
        wait_until(lambda: table.jobs() > seen)
        leader.restart(signal.SIGKILL)  # another in its place
        assert taken is not None
        if ends is None:
            return math.inf  # it was replaced before we could look
        # The lease ends at most a TTL after the kill: the leader renewed it before.
        assert taken[0] >= ends[0]
        return float((taken[0] - ends[0]).total_seconds())

    in_time(replace, 1)


@pytest.mark.slow
def test_a_leader_that_was_frozen_for_three_ttls_stands_back(
    store: PostgresStore, nodes: list[Node], table: ScheduleTable
) -> None:
    """Field case B01: another leads meanwhile, and the frozen one changes nothing of it."""
    store.schedule("s", "@every 1s", "s", 1)
    wait_until(lambda: table.jobs() > 0, timeout=30)
    led_by = owner_of(table)
    frozen = leader_of(nodes, table)
    frozen.send(signal.SIGSTOP)
    wait_until(lambda: owner_of(table) not in (led_by, None), timeout=30)
    wait_until(lambda: len(table.fired("s")) >= 3 * TTL, timeout=60)
    frozen.send(signal.SIGCONT)
    seen = len(table.fired("s"))
    wait_until(lambda: len(table.fired("s")) >= seen + 3)
    assert owner_of(table) != led_by
    fired = table.fired("s")
    assert fired == grid(fired[0], timedelta(seconds=1), len(fired))


@pytest.mark.slow
def test_a_process_in_a_silent_network_lives_on_and_leads_again(
    store: PostgresStore, nodes: list[Node], table: ScheduleTable
) -> None:
    """Nothing is closed and nothing refused: it lets go of its calls by itself."""
    store.schedule("s", "@every 1s", "s", 1)
    wait_until(lambda: table.jobs() > 0, timeout=30)
    led_by = owner_of(table)
    silenced = leader_of(nodes, table)
    silenced.fall_silent()
    wait_until(lambda: owner_of(table) not in (led_by, None), timeout=30)
    seen = len(table.fired("s"))
    wait_until(lambda: len(table.fired("s")) >= seen + 3 * TTL, timeout=60)
    silenced.speak()
    for node in nodes:
        if node is not silenced:
            node.send(signal.SIGTERM)
    wait_until(lambda: leader_of(nodes, table) is silenced, timeout=30)
    assert silenced.close() == [0]
    fired = table.fired("s")
    assert fired == grid(fired[0], timedelta(seconds=1), len(fired))


@pytest.mark.slow
def test_processes_in_a_silent_network_end_in_order_when_they_are_asked_to(
    store: PostgresStore, nodes: list[Node], table: ScheduleTable
) -> None:
    """The leader and those that stand by; their calls have been given up before, and after."""
    store.schedule("s", "@every 1s", "s", 1)
    hears = (
        "SELECT count(DISTINCT application_name) FROM pg_stat_activity"
        " WHERE application_name LIKE 'node %%' AND query LIKE '%%alkstore_probe_%%'"
    )
    wait_until(lambda: table.run(hears).fetchone() == (NODES,) and table.jobs() > 0, timeout=30)
    for node in nodes:
        node.fall_silent()
    time.sleep(2 * TTL)  # the silence lasts, and goes on while they end
    with ThreadPoolExecutor(NODES) as together:
        assert list(together.map(Node.close, nodes)) == [[0]] * NODES
