"""The listener survives whatever happens to its connection, and then wakes everyone."""

from __future__ import annotations

import errno
import logging
import socket
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from alkstore_postgres import PostgresStore
from alkstore_postgres.wakes import listener as listener_module
from alkstore_postgres.wakes.connect import connector
from alkstore_postgres.wakes.hub import WakeHub
from tests.support.broken_log import broken_log
from tests.support.hubs import Ear, MakeHub, kill, send, sessions
from tests.support.proxy import Proxy
from tests.support.timing import in_time
from tests.support.waiting import rest, wait_until


def test_a_hundred_forced_faults_leave_no_session_and_lose_no_waiter(
    make_hub: MakeHub, connection: psycopg.Connection[Any], schema: str
) -> None:
    """Every kill is followed by a wake for everybody, and nothing is left on the server."""
    hub = make_hub(steady=0)  # each connection counts as one that had lasted
    ears = {name: Ear() for name in ("x", "y", "z")}
    for name, ear in ears.items():
        hub.attach(name, ear)
    # Those that were attached last may have come too late for the first connection.
    wait_until(lambda: hub.state == "listening")
    for ear in ears.values():
        ear.heard.clear()
    descriptors = []
    for number in range(100):
        wait_until(lambda: len(sessions(connection, schema)) == 1)  # the one before is gone
        assert kill(connection, schema) == 1
        if number in (9, 99):
            descriptors.append(open_descriptors())
        wait_until(lambda: all(ear.heard for ear in ears.values()))
        for ear in ears.values():
            ear.heard.clear()
    assert hub.reconnects == 100
    wait_until(lambda: len(sessions(connection, schema)) == 1)
    assert descriptors[1] <= descriptors[0] + 1
    send(connection, schema, "x")
    wait_until(lambda: ears["x"].heard == ["x"])


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
        wait_until(lambda: hub.state == "listening")
        wait_until(lambda: len([one for one in caplog.records if "wakes.hub" in one.name]) >= 2)
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
    wait_until(lambda: hub.state != "deaf")


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
    wait_until(lambda: hub.state == "listening")


def test_connections_that_do_not_last_are_made_more_and_more_rarely(
    make_hub: MakeHub,
    connection: psycopg.Connection[Any],
    schema: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A proxy, a pooler's time limit, or somebody who cleans up: each is cut as it hears."""
    hub, ear = make_hub(), Ear()
    hub.attach("x", ear)
    began = time.monotonic()
    for cuts in range(1, 7):
        wait_until(lambda cuts=cuts: len(ear.heard) >= cuts)  # type: ignore[misc]
        wait_until(lambda: len(sessions(connection, schema)) == 1)  # the one before is gone
        assert kill(connection, schema) == 1
    wait_until(lambda: len(ear.heard) >= 7)
    # Half of 0.1, 0.2, 0.4, 0.8, 1.6 and 3.2 s at least; the rest is left to chance.
    assert time.monotonic() - began > 3.0
    assert hub.reconnects == 6
    lines = [one for one in caplog.records if one.levelno >= logging.WARNING]
    assert 1 <= len(lines) <= 4


def test_after_one_that_lasted_the_next_is_there_soon(
    make_hub: MakeHub, connection: psycopg.Connection[Any], schema: str
) -> None:
    hub, ear = make_hub(steady=0.5), Ear()
    hub.attach("x", ear)
    for cuts in range(1, 5):
        wait_until(lambda cuts=cuts: len(ear.heard) >= cuts)  # type: ignore[misc]
        wait_until(lambda: len(sessions(connection, schema)) == 1)  # the one before is gone
        assert kill(connection, schema) == 1
    wait_until(lambda: len(ear.heard) >= 5)

    def cut() -> float:
        rest(0.7)
        wait_until(lambda: len(sessions(connection, schema)) == 1)
        heard = len(ear.heard)
        began = time.monotonic()
        assert kill(connection, schema) == 1
        wait_until(lambda: len(ear.heard) > heard)
        return time.monotonic() - began

    in_time(cut, 0.4)


def test_after_an_outage_one_cut_is_followed_by_a_new_connection_soon(
    make_hub: MakeHub, conninfo: str
) -> None:
    """A server that has just come up, or a proxy, may drop the first one."""

    def cut_after_an_outage() -> float:
        with Proxy(conninfo) as proxy:
            hub, ear = make_hub(proxy.conninfo), Ear()
            proxy.stall()
            hub.attach("x", ear)
            for number in range(1, 5):
                wait_until(lambda number=number: proxy.accepted >= number)  # type: ignore[misc]
                proxy.cut()
            proxy.revive()
            wait_until(lambda: ear.heard)
            began = time.monotonic()
            proxy.cut()
            wait_until(lambda: len(ear.heard) == 2)
            hub.close()
            return time.monotonic() - began

    in_time(cut_after_an_outage, 0.5)


@pytest.mark.parametrize("failure", [psycopg.OperationalError("x"), KeyError("x")])
def test_a_log_that_fails_does_not_end_the_thread(
    make_hub: MakeHub,
    connection: psycopg.Connection[Any],
    schema: str,
    monkeypatch: pytest.MonkeyPatch,
    failure: Exception,
) -> None:
    """Field case B08."""
    from alkstore_postgres.wakes.line import Line

    hub, ear = make_hub(), Ear()
    failures = [failure]
    read = Line.read

    def fail_once(line: Line) -> list[str]:
        if ear.heard and failures:
            raise failures.pop()
        return read(line)

    monkeypatch.setattr(Line, "read", fail_once)
    with broken_log("alkstore_postgres.wakes") as log:
        logging.getLogger("alkstore_postgres.wakes").setLevel(logging.INFO)
        hub.attach("x", ear)
        thread = hub._thread
        wait_until(lambda: ear.heard)
        send(connection, schema, "x")
        wait_until(lambda: len(ear.heard) == 2)
        wait_until(lambda: len(log.refused) >= 3)
        logging.getLogger("alkstore_postgres.wakes").setLevel(logging.NOTSET)
    assert len(log.refused) == 3, "connected, lost, connected"
    wait_until(lambda: hub.state == "listening")
    assert hub._thread is thread


def test_the_thread_goes_on_whatever_a_turn_comes_to(
    make_hub: MakeHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    hub, ear = make_hub(), Ear()
    failures: list[BaseException] = [MemoryError(), SystemExit(1), KeyboardInterrupt()]
    turn = WakeHub._turn

    def fail_at_first(self: WakeHub, bell: socket.socket) -> float:
        if failures:
            raise failures.pop()
        return turn(self, bell)

    monkeypatch.setattr(WakeHub, "_turn", fail_at_first)
    hub.attach("x", ear)
    wait_until(lambda: ear.heard == ["x"])
    assert not failures


def test_a_listener_that_sleeps_is_found_by_a_later_thread(
    store: PostgresStore, open_store: Callable[..., PostgresStore], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It polls nothing, and nobody else of its process may ever attach."""
    monkeypatch.setattr(listener_module, "_LOOK_EVERY", 0.2)

    def full() -> None:
        raise OSError(errno.EMFILE, "Too many open files")

    with monkeypatch.context() as patch:
        patch.setattr(socket, "socketpair", full)
        listener = store.listen("c")
        with ThreadPoolExecutor(1) as threads:
            heard = threads.submit(listener.wait, 10)
            rest(0.5)
            assert store._parts.hub.state == "idle"
            patch.undo()
            wake = heard.result()  # with the first connection everybody is woken
    assert wake is not None
    other = open_store()
    other.notify("c")
    assert listener.wait(10) is not None
