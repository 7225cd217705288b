"""The listener survives whatever happens to its connection, and then wakes everyone."""

from __future__ import annotations

import logging
import socket
import time
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from alkstore_postgres.wakes.connect import connector
from alkstore_postgres.wakes.hub import WakeHub
from tests.support.hubs import Ear, MakeHub, kill, send, sessions
from tests.support.proxy import Proxy
from tests.support.timing import in_time
from tests.support.waiting import wait_until


def test_a_hundred_forced_faults_leave_no_session_and_lose_no_waiter(
    make_hub: MakeHub, connection: psycopg.Connection[Any], schema: str
) -> None:
    """Every kill is followed by a wake for everybody, and nothing is left on the server."""
    hub = make_hub()
    ears = {name: Ear() for name in ("x", "y", "z")}
    for name, ear in ears.items():
        hub.attach(name, ear)
    descriptors = []
    for number in range(100):
        wait_until(lambda: all(ear.heard for ear in ears.values()))
        for ear in ears.values():
            ear.heard.clear()
        wait_until(lambda: len(sessions(connection, schema)) == 1)  # the one before is gone
        assert kill(connection, schema) == 1
        if number in (9, 99):
            descriptors.append(open_descriptors())
    wait_until(lambda: all(ear.heard for ear in ears.values()))
    assert hub.reconnects == 100
    wait_until(lambda: len(sessions(connection, schema)) == 1)
    assert descriptors[1] <= descriptors[0] + 1
    send(connection, schema, "x")
    wait_until(lambda: len(ears["x"].heard) == 2)


def open_descriptors() -> int:
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


def test_a_server_that_is_away_at_first_is_found_later(
    make_hub: MakeHub, conninfo: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Field case B69: a failed connection is not remembered."""
    caplog.set_level(logging.INFO)
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    where = make_conninfo(conninfo, host="127.0.0.1", port=port, sslmode="disable")
    hub, ear = make_hub(where), Ear()
    hub.attach("x", ear)
    assert not hub.settle(5)
    assert hub.state == "lost"
    time.sleep(0.5)
    with Proxy(conninfo, port=port):
        wait_until(lambda: ear.heard == ["x"])
        hub.close()
    lines = [record.getMessage() for record in caplog.records if "wakes.hub" in record.name]
    assert len(lines) == 2  # one a change, however many attempts there were


def test_a_silent_loss_of_the_network_is_found_and_everyone_is_woken(
    make_hub: MakeHub,
    proxy: Proxy,
    through_proxy: str,
    connection: psycopg.Connection[Any],
    schema: str,
) -> None:
    """Field case B67, at 30 times the speed: within heartbeat + patience."""
    hub, ear = make_hub(through_proxy, heartbeat=0.5, patience=0.4), Ear()
    hub.attach("x", ear)

    def lose() -> float:
        wait_until(lambda: hub.state == "listening")
        proxy.stall()
        began = time.monotonic()
        wait_until(lambda: hub.state == "lost")
        took = time.monotonic() - began
        ear.heard.clear()
        proxy.resume()
        wait_until(lambda: ear.heard)
        return took

    in_time(lose, 1.2)
    heard = len(ear.heard)
    send(connection, schema, "x")
    wait_until(lambda: len(ear.heard) > heard)


def test_the_silence_that_the_default_limits_allow_is_under_30_seconds() -> None:
    hub = WakeHub(connector("", {}), "s")
    assert hub._heartbeat + hub._patience < 30
    assert 60 / hub._heartbeat <= 4


def test_a_way_that_swallows_notifications_is_told_once_and_tried_again(
    make_hub: MakeHub,
    proxy: Proxy,
    through_proxy: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Field case B74."""
    proxy.swallows = True
    hub, ear = make_hub(through_proxy, patience=0.2, deaf_pause=0.1), Ear()
    hub.attach("x", ear)
    wait_until(lambda: hub.state == "deaf")
    wait_until(lambda: proxy.accepted >= 4)
    assert hub.state == "deaf"
    assert [record.levelno for record in caplog.records] == [logging.WARNING]
    assert ear.heard == []
    proxy.swallows = False
    wait_until(lambda: ear.heard == ["x"])
    assert hub.state != "deaf"


def test_a_connection_that_goes_deaf_is_found(
    make_hub: MakeHub, proxy: Proxy, through_proxy: str
) -> None:
    hub = make_hub(through_proxy, heartbeat=0.2, patience=0.2)
    hub.attach("x", Ear())
    assert hub.settle(5)
    proxy.swallows = True
    wait_until(lambda: hub.state == "deaf")


@pytest.mark.parametrize("failure", [KeyError("x"), MemoryError(), SystemExit(1)])
def test_whatever_fails_inside_the_thread_it_lives_on(
    make_hub: MakeHub,
    connection: psycopg.Connection[Any],
    schema: str,
    monkeypatch: pytest.MonkeyPatch,
    failure: BaseException,
) -> None:
    """Field case B08."""
    from alkstore_postgres.wakes.line import Line

    hub, ear = make_hub(), Ear()
    hub.attach("x", ear)
    wait_until(lambda: ear.heard)
    failures = [failure]
    read = Line.read

    def fail_once(line: Line) -> list[str]:
        if failures:
            raise failures.pop()
        return read(line)

    monkeypatch.setattr(Line, "read", fail_once)
    send(connection, schema, "x")
    wait_until(lambda: len(ear.heard) == 2)
    assert not failures
    assert hub.state == "listening"
