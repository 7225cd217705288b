"""The hub: it starts on first need, tells each sink, closes at once, and stays out of forks."""

from __future__ import annotations

import os
import time
from typing import Any

import psycopg
import pytest

from tests.support.hubs import Ear, MakeHub, send, sessions
from tests.support.proxy import Proxy
from tests.support.timing import in_time
from tests.support.waiting import rest, wait_until


def test_a_hub_connects_on_first_need(
    make_hub: MakeHub, connection: psycopg.Connection[Any], schema: str
) -> None:
    hub = make_hub()
    assert sessions(connection, schema) == []
    assert hub.state == "idle"
    ear = Ear()
    hub.attach("x", ear)
    wait_until(lambda: ear.heard == ["x"])
    assert len(sessions(connection, schema)) == 1


def test_a_detached_sink_hears_nothing(
    make_hub: MakeHub, connection: psycopg.Connection[Any], schema: str
) -> None:
    hub, gone, ear = make_hub(), Ear(), Ear()
    hub.attach("x", gone)
    wait_until(lambda: gone.heard)
    hub.attach("x", ear)
    hub.detach("x", gone)
    hub.detach("x", gone)
    send(connection, schema, "x")
    wait_until(lambda: ear.heard)
    assert len(gone.heard) == 1


def test_a_sink_that_raises_harms_nobody(
    make_hub: MakeHub,
    connection: psycopg.Connection[Any],
    schema: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    def fail(name: str) -> None:
        raise ZeroDivisionError(name)

    hub, first, ear = make_hub(), Ear(), Ear()
    hub.attach("x", first)
    wait_until(lambda: first.heard)  # it listens; what comes from now on comes to all
    hub.attach("x", fail)
    hub.attach("x", ear)
    for count in range(1, 20):
        send(connection, schema, "x")
        wait_until(lambda count=count: len(ear.heard) == count)  # type: ignore[misc]
    assert hub.reconnects == 0
    failures = [record for record in caplog.records if record.exc_info]
    assert len(failures) == 1  # told, not once for each wake


def test_closing_is_fast_and_wakes_everyone(
    make_hub: MakeHub, connection: psycopg.Connection[Any], schema: str
) -> None:
    def close_one() -> float:
        hub, ear = make_hub(), Ear()
        hub.attach("x", ear)
        wait_until(lambda: ear.heard)
        ear.heard.clear()
        began = time.monotonic()
        hub.close()
        took = time.monotonic() - began
        assert ear.heard == ["x"]
        wait_until(lambda: not sessions(connection, schema))
        hub.close()
        hub.attach("y", ear)  # nothing starts again
        assert sessions(connection, schema) == []
        return took

    in_time(close_one, 0.2)


def test_closing_is_fast_while_the_server_is_silent(
    make_hub: MakeHub, proxy: Proxy, through_proxy: str
) -> None:
    def close_one() -> float:
        hub = make_hub(through_proxy, heartbeat=0.1, patience=30)
        hub.attach("x", Ear())
        wait_until(lambda: hub.state == "listening")
        proxy.stall()
        rest(0.3)  # a probe is on its way
        began = time.monotonic()
        hub.close()
        took = time.monotonic() - began
        proxy.resume()
        return took

    in_time(close_one, 0.2)


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_child_of_a_fork_listens_on_a_connection_of_its_own(
    make_hub: MakeHub, connection: psycopg.Connection[Any], schema: str
) -> None:
    """Field case B80: the parent's connection is not touched."""
    hub, ear = make_hub(), Ear()
    hub.attach("x", ear)
    wait_until(lambda: ear.heard)
    ready, done = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            child_ear = Ear()
            hub.attach("x", child_ear)
            wait_until(lambda: child_ear.heard)
            os.write(done, b"r")
            wait_until(lambda: len(child_ear.heard) >= 2)
            hub.close()
            os._exit(0 if ear.heard == ["x"] else 2)
        except BaseException:  # noqa: BLE001 - told by the exit code
            os._exit(1)
    assert os.read(ready, 1) == b"r"
    assert len(sessions(connection, schema)) == 2
    send(connection, schema, "x")
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    wait_until(lambda: len(ear.heard) == 2)
    send(connection, schema, "x")
    wait_until(lambda: len(ear.heard) == 3)
    assert hub.reconnects == 0
    os.close(ready)
    os.close(done)
