"""The listener's connection: what it asks of the server, and of this machine, while it waits."""

from __future__ import annotations

import os
import time
from typing import Any, cast

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from alkstore_postgres.wakes.connect import connector
from tests.support.hubs import Ear, MakeHub, kill, send, sessions
from tests.support.waiting import wait_until


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
    began = time.monotonic()
    wait_until(lambda: len(sent) >= 4)
    assert time.monotonic() - began > 3  # and a minute begins with no more than one


def test_a_statement_timeout_does_not_cut_the_wait(make_hub: MakeHub, conninfo: str) -> None:
    """Field case B115: the wait is on the socket, not in SQL."""
    limits = "-c statement_timeout=200 -c idle_session_timeout=300"
    hub = make_hub(make_conninfo(conninfo, options=limits))
    hub.attach("x", Ear())
    assert hub.settle(5)
    time.sleep(1.5)
    assert hub.state == "listening"
    assert hub.reconnects == 0


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
