"""The listener survives whatever happens to its connection, and then wakes everyone."""

from __future__ import annotations

import logging
import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from alkstore_postgres.wakes.channel import wake_channel
from alkstore_postgres.wakes.connect import connector
from alkstore_postgres.wakes.hub import WakeHub
from tests.support.proxy import Proxy
from tests.support.waiting import wait_until

MakeHub = Callable[..., WakeHub]


class Ear:
    """A sink that counts."""

    def __init__(self) -> None:
        self.heard: list[str] = []

    def __call__(self, name: str) -> None:
        self.heard.append(name)


@pytest.fixture
def make_hub(conninfo: str, schema: str) -> Iterator[MakeHub]:
    hubs = []

    def make(where: str = conninfo, **timing: float) -> WakeHub:
        named = make_conninfo(where, application_name=schema)
        hub = WakeHub(connector(named, {}), schema, **timing)
        hubs.append(hub)
        return hub

    yield make
    for hub in hubs:
        hub.close()


@pytest.fixture
def through_proxy(proxy: Proxy) -> str:
    return proxy.conninfo


def sessions(connection: psycopg.Connection[Any], schema: str) -> list[tuple[Any, ...]]:
    query = "SELECT pid, state, xact_start FROM pg_stat_activity WHERE application_name = %s"
    return connection.execute(query, [schema]).fetchall()


def kill(connection: psycopg.Connection[Any], schema: str) -> int:
    query = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = %s"
    return connection.execute(query, [schema]).rowcount


def send(connection: psycopg.Connection[Any], schema: str, name: str) -> None:
    connection.execute("SELECT pg_notify(%s, %s)", [wake_channel(schema), name])


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
    hub.attach("x", ear)
    wait_until(lambda: ear.heard and gone.heard)
    hub.detach("x", gone)
    hub.detach("x", gone)
    send(connection, schema, "x")
    wait_until(lambda: len(ear.heard) == 2)
    assert len(gone.heard) == 1


def test_a_sink_that_raises_harms_nobody(
    make_hub: MakeHub,
    connection: psycopg.Connection[Any],
    schema: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    def fail(name: str) -> None:
        raise ZeroDivisionError(name)

    hub, ear = make_hub(), Ear()
    hub.attach("x", fail)
    hub.attach("x", ear)
    for count in range(2, 20):
        wait_until(lambda count=count: len(ear.heard) == count - 1)  # type: ignore[misc]
        send(connection, schema, "x")
    assert hub.reconnects == 0
    failures = [record for record in caplog.records if record.exc_info]
    assert len(failures) == 1  # told, not once for each wake


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


def test_no_transaction_is_ever_open_on_the_listener(
    make_hub: MakeHub, connection: psycopg.Connection[Any], schema: str
) -> None:
    """Field case B77: an open transaction there would fill the server's queue."""
    hub = make_hub(heartbeat=0.05)
    hub.attach("x", Ear())
    hub.settle(5)
    until = time.monotonic() + 2
    seen = 0
    while time.monotonic() < until:
        if seen % 50 == 49:
            kill(connection, schema)
        for _, state, xact_start in sessions(connection, schema):
            # A statement that runs right now has a start; an idle session must not.
            assert state not in ("idle in transaction", "idle in transaction (aborted)")
            assert state != "idle" or xact_start is None
        seen += 1


def test_an_idle_listener_sends_at_most_four_statements_a_minute(
    make_hub: MakeHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Field case B79. Counted at 15 times the speed: a heartbeat a second."""
    from alkstore_postgres.wakes.line import Line

    sent: list[str] = []
    send_statements = Line._send

    def counted(line: Line, statements: str) -> None:
        sent.append(statements)
        send_statements(line, statements)

    monkeypatch.setattr(Line, "_send", counted)
    hub = make_hub(heartbeat=1.0)
    hub.attach("x", Ear())
    assert hub.settle(5)
    del sent[:]
    time.sleep(4)
    assert 3 <= len(sent) <= 4


def test_a_statement_timeout_does_not_cut_the_wait(make_hub: MakeHub, conninfo: str) -> None:
    """Field case B115: the wait is on the socket, not in SQL."""
    limits = "-c statement_timeout=200 -c idle_session_timeout=300"
    hub = make_hub(make_conninfo(conninfo, options=limits))
    hub.attach("x", Ear())
    assert hub.settle(5)
    time.sleep(1.5)
    assert hub.state == "listening"
    assert hub.reconnects == 0


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
    wait_until(lambda: ear.heard)
    proxy.stall()
    began = time.monotonic()
    wait_until(lambda: hub.state == "lost", 2)
    assert time.monotonic() - began < 1.2
    ear.heard.clear()
    proxy.resume()
    wait_until(lambda: ear.heard == ["x"], 8)
    send(connection, schema, "x")
    wait_until(lambda: len(ear.heard) == 2, 2)


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
    wait_until(lambda: hub.state == "deaf", 2)


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


def test_closing_is_fast_and_wakes_everyone(
    make_hub: MakeHub, connection: psycopg.Connection[Any], schema: str
) -> None:
    hub, ear = make_hub(), Ear()
    hub.attach("x", ear)
    wait_until(lambda: ear.heard)
    ear.heard.clear()
    began = time.monotonic()
    hub.close()
    assert time.monotonic() - began < 0.2
    assert ear.heard == ["x"]
    wait_until(lambda: not sessions(connection, schema), 2)
    hub.close()
    hub.attach("y", ear)  # nothing starts again
    assert sessions(connection, schema) == []


def test_closing_is_fast_while_the_server_is_silent(
    make_hub: MakeHub, proxy: Proxy, through_proxy: str
) -> None:
    hub = make_hub(through_proxy, heartbeat=0.1, patience=30)
    hub.attach("x", Ear())
    assert hub.settle(5)
    proxy.stall()
    time.sleep(0.3)
    began = time.monotonic()
    hub.close()
    assert time.monotonic() - began < 0.2


def test_descriptors_past_1024_are_listened_on(
    make_hub: MakeHub, connection: psycopg.Connection[Any], schema: str
) -> None:
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard < 2048:
        pytest.skip("this machine allows too few descriptors")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, 2048), hard))
    ballast = [os.dup(1) for _ in range(1100)]
    try:
        hub, ear = make_hub(), Ear()
        hub.attach("x", ear)
        wait_until(lambda: ear.heard)
        send(connection, schema, "x")
        wait_until(lambda: len(ear.heard) == 2)
        turn = hub._running
        assert turn is not None
        assert turn.line is not None
        assert turn.line.fileno() > 1024
    finally:
        for descriptor in ballast:
            os.close(descriptor)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


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


def test_what_the_connection_string_says_about_keepalives_holds() -> None:
    seen: dict[str, Any] = {}

    class Recorder:
        @classmethod
        def connect(cls, conninfo: str, **arguments: Any) -> None:
            seen.update(conninfo_to_dict(conninfo), **arguments)

    recorder = cast("type[psycopg.Connection[Any]]", Recorder)
    connector("host=x keepalives_idle=99 connect_timeout=3", {"row_factory": 1}, recorder)()
    assert seen["keepalives_idle"] == "99"
    assert seen["connect_timeout"] == "3"
    assert seen["tcp_user_timeout"] == "20000"
    assert seen["autocommit"] is True
    assert "row_factory" not in seen


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
