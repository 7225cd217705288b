"""A flood of notifications starves nobody, and leaves nothing behind."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path
from typing import Any

import psycopg
import pytest

from alkstore_postgres.wakes.channel import wake_channel
from tests.support.hubs import Ear, MakeHub, send
from tests.support.proxy import Proxy
from tests.support.waiting import wait_until


def test_a_stream_of_foreign_wakes_starves_nobody(
    make_hub: MakeHub, conninfo: str, connection: psycopg.Connection[Any], schema: str
) -> None:
    hub, ear = make_hub(heartbeat=0.2, patience=1), Ear()
    hub.attach("x", ear)
    wait_until(lambda: ear.heard)
    stop = threading.Event()

    def flood() -> None:
        with psycopg.connect(conninfo, autocommit=True) as sender:
            while not stop.is_set():
                query = "SELECT pg_notify(%s, 'foreign ' || n) FROM generate_series(1, 500) n"
                sender.execute(query, [wake_channel(schema)])

    thread = threading.Thread(target=flood)
    thread.start()
    try:
        for count in range(2, 22):
            send(connection, schema, "x")
            wait_until(lambda count=count: len(ear.heard) >= count, 2)  # type: ignore[misc]
        assert hub.reconnects == 0
    finally:
        stop.set()
        thread.join()


def test_one_that_runs_behind_a_stream_wakes_everyone_until_it_has_caught_up(
    make_hub: MakeHub,
    proxy: Proxy,
    connection: psycopg.Connection[Any],
    schema: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    hub, ear = make_hub(proxy.conninfo, heartbeat=0.2, patience=1), Ear()
    hub.attach("x", ear)
    wait_until(lambda: ear.heard)
    proxy.pace = 50_000
    query = "SELECT pg_notify(%s, 'foreign ' || n) FROM generate_series(1, 20000) n"
    connection.execute(query, [wake_channel(schema)])  # a megabyte: 20 s
    heard = len(ear.heard)
    for count in (1, 2, 3):
        wait_until(lambda count=count: len(ear.heard) >= heard + count, 2)  # type: ignore[misc]
    assert [one.levelname for one in caplog.records if "faster" in one.message] == ["WARNING"]
    proxy.pace = None

    def is_quiet() -> bool:
        heard = len(ear.heard)
        time.sleep(1.2)
        return len(ear.heard) == heard

    wait_until(is_quiet)
    assert (hub.state, hub.reconnects) == ("listening", 0)


def test_a_probe_that_is_out_when_a_stream_begins_is_waited_for_behind_it(
    make_hub: MakeHub,
    proxy: Proxy,
    connection: psycopg.Connection[Any],
    schema: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    hub, ear = make_hub(proxy.conninfo, heartbeat=0.2, patience=1), Ear()
    hub.attach("x", ear)
    wait_until(lambda: ear.heard)

    def is_out() -> bool:
        turn = hub._running
        return turn is not None and turn.line is not None and not turn.line.is_proven

    proxy.stall()
    wait_until(is_out)
    query = "SELECT pg_notify(%s, 'foreign ' || n) FROM generate_series(1, 5000) n"
    connection.execute(query, [wake_channel(schema)])
    proxy.pace = 50_000  # a quarter of a megabyte: 5 s
    proxy.resume()
    heard = len(ear.heard)
    wait_until(lambda: len(ear.heard) >= heard + 3)
    assert [one.levelname for one in caplog.records if "faster" in one.message] == ["WARNING"]
    proxy.pace = None
    wait_until(lambda: not is_out())
    assert (hub.state, hub.reconnects) == ("listening", 0)


def test_one_that_runs_behind_on_a_slow_way_wakes_everyone_as_well(
    make_hub: MakeHub, proxy: Proxy, connection: psycopg.Connection[Any], schema: str
) -> None:
    """Few wakes come through, with pauses between them; the one that matters is minutes away."""
    hub, ear = make_hub(proxy.conninfo), Ear()
    hub.attach("x", ear)
    wait_until(lambda: ear.heard)
    proxy.pace = 5_000
    query = "SELECT pg_notify(%s, 'foreign ' || n) FROM generate_series(1, 20000) n"
    connection.execute(query, [wake_channel(schema)])
    heard = len(ear.heard)
    for count in (1, 2, 3):
        wait_until(lambda count=count: len(ear.heard) >= heard + count, 3)  # type: ignore[misc]
    assert (hub.state, hub.reconnects) == ("listening", 0)


@pytest.mark.parametrize("wakes", [1, 200], ids=["light", "heavy"])
def test_a_stream_that_is_heard_in_time_costs_few_probes(
    make_hub: MakeHub, conninfo: str, connection: psycopg.Connection[Any], schema: str, wakes: int
) -> None:
    """For each probe the server rouses every listener of the database."""
    probes: list[float] = []

    def count(_connection: int, _kind: bytes, body: bytes) -> None:
        if b"pg_notify('alkstore_probe" in body:
            probes.append(time.monotonic())

    with Proxy(conninfo, count) as proxy:
        hub, ear = make_hub(proxy.conninfo), Ear()
        hub.attach("x", ear)
        wait_until(lambda: ear.heard)
        probes.clear()
        query = "SELECT pg_notify(%s, 'foreign ' || n) FROM generate_series(1, %s) n"
        for _ in range(60):
            connection.execute(query, [wake_channel(schema), wakes])
            time.sleep(0.1)
        hub.close()
    # Three, or one more for each that a busy machine was late to bring back; not twelve.
    assert 1 <= len(probes) <= 6


@pytest.mark.slow
def test_a_million_notifications_leave_no_memory_behind(
    make_hub: MakeHub, connection: psycopg.Connection[Any], schema: str
) -> None:
    """Field case B71."""
    hub, ear = make_hub(), Ear()
    hub.attach("last", ear)
    wait_until(lambda: ear.heard)

    def send_many(batches: int) -> None:
        for _ in range(batches):
            query = "SELECT count(pg_notify(%s, 'n' || n)) FROM generate_series(1, 10000) n"
            connection.execute(query, [wake_channel(schema)])
            before = len(ear.heard)
            send(connection, schema, "last")
            wait_until(lambda before=before: len(ear.heard) > before, 60)  # type: ignore[misc]

    send_many(10)
    before = resident()
    send_many(90)
    assert resident() - before < 5 * 1024 * 1024


def resident() -> int:
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * os.sysconf("SC_PAGESIZE")
