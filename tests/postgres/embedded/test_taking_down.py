"""A test of an outage takes its server down and brings it back, where and as it was."""

from __future__ import annotations

import os
import shutil
import signal
import socket
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psycopg
import pytest

from alkstore_postgres import embedded
from alkstore_postgres.embedded import EmbeddedServerError, process
from tests.support.embedding import Start, ask, do, is_alive, server_pid
from tests.support.waiting import wait_until


@pytest.mark.parametrize("mode", ["fast", "immediate"])
def test_a_restart_keeps_port_and_data(own_server: embedded.EmbeddedServer, mode: str) -> None:
    do(own_server, "CREATE TABLE t AS SELECT 7 AS n")
    url, pid = own_server.url, server_pid(own_server.directory)
    own_server.restart(mode)
    assert own_server.url == url
    assert server_pid(own_server.directory) != pid
    assert ask(url, "SELECT n FROM t") == 7


def test_a_halted_server_is_away_until_it_is_resumed(own_server: embedded.EmbeddedServer) -> None:
    own_server.halt()
    with pytest.raises(psycopg.OperationalError):
        psycopg.connect(own_server.url)
    own_server.resume()
    own_server.resume()
    assert ask(own_server, "SELECT 1") == 1


def test_a_server_whose_process_was_killed_comes_back_with_its_data(
    own_server: embedded.EmbeddedServer,
) -> None:
    do(own_server, "CREATE TABLE t AS SELECT 7 AS n")
    os.kill(server_pid(own_server.directory), signal.SIGKILL)
    own_server.restart()
    assert ask(own_server, "SELECT n FROM t") == 7


def test_a_stopped_server_stays_stopped(start: Start) -> None:
    server = start()
    server.stop()
    for call in (server.resume, server.halt, server.restart):
        with pytest.raises(EmbeddedServerError, match="was stopped"):
            call()


def test_an_unknown_way_to_stop_is_refused(own_server: embedded.EmbeddedServer) -> None:
    with pytest.raises(EmbeddedServerError, match="mode must be one of"):
        own_server.restart("gently")
    assert ask(own_server, "SELECT 1") == 1


def test_a_server_waits_for_its_port_when_it_comes_back(
    own_server: embedded.EmbeddedServer,
) -> None:
    own_server.halt()
    with ThreadPoolExecutor(1) as executor:
        with socket.create_server(("127.0.0.1", own_server.port)):
            resumed = executor.submit(own_server.resume)
            log = own_server.directory / "server.log"
            wait_until(lambda: "could not bind" in log.read_text())
        resumed.result()
    assert ask(own_server, "SELECT 1") == 1


def test_a_port_that_stays_taken_is_told(
    own_server: embedded.EmbeddedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process, "_SAME_PORT_LIMIT", 0.0)
    own_server.halt()
    with (
        socket.create_server(("127.0.0.1", own_server.port)),
        pytest.raises(EmbeddedServerError, match=r"(?s)did not start.*could not bind"),
    ):
        own_server.resume()
    own_server.resume()
    assert ask(own_server, "SELECT 1") == 1


def test_a_server_whose_folder_was_taken_away_can_be_stopped(start: Start, used: Path) -> None:
    server = start(used)
    pid = server_pid(used)
    shutil.rmtree(used)
    server.stop()
    assert not is_alive(pid)
