"""A developer starts a real server for a first look; it is there at once, gone without a trace."""

from __future__ import annotations

import itertools
import socket
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psycopg
import pytest

from alkstore_postgres.embedded import process
from alkstore_postgres.embedded.address import free_port
from tests.support.embedding import Start, ask, do, is_alive, parent_of, server_pid


def test_a_started_server_answers_and_a_stopped_one_leaves_nothing(start: Start) -> None:
    server = start()
    assert ask(server, "SELECT 'hello'") == "hello"
    pid = server_pid(server.directory)
    launcher = parent_of(pid)
    server.stop()
    assert not server.directory.exists()
    assert not is_alive(pid)
    assert not is_alive(launcher)
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", server.port)).close()
    server.stop()


def test_the_server_keeps_to_this_machine_and_to_its_password(start: Start) -> None:
    server = start()
    assert ask(server, "SHOW listen_addresses") == "127.0.0.1"
    assert ask(server, "SHOW unix_socket_directories") == ""
    with pytest.raises(psycopg.OperationalError, match="password"):
        psycopg.connect(server.url, password="another")
    assert ask(server, "SHOW fsync") == "on"


def test_settings_reach_the_server(start: Start) -> None:
    server = start(settings={"fsync": "off", "application.name": "a 'quoted' one"})
    assert ask(server, "SHOW fsync") == "off"
    assert ask(server, 'SHOW "application.name"') == "a 'quoted' one"


def test_a_database_of_its_own_is_a_call_away(start: Start) -> None:
    url = start().create_database('odd "name"/?')
    assert ask(url, "SELECT current_database()") == 'odd "name"/?'


def test_the_environment_of_clients_does_not_disturb_the_start(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    environment = {
        "PGSSLMODE": "require",
        "PGHOSTADDR": "192.0.2.1",
        "PGOPTIONS": "-c no_such_setting=1",
        "PGCHANNELBINDING": "require",
        "PGTARGETSESSIONATTRS": "read-only",
        "PGCLIENTENCODING": "LATIN1",
        "PGDATESTYLE": "German",
        "PGDATA": "/nonexistent",
        "PGPORT": "1",
    }
    monkeypatch.setenv("LC_ALL", "xx_XX.UTF-8")
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    server = start()
    for name in environment:
        monkeypatch.delenv(name)
    assert ask(server, "SHOW DateStyle") == "ISO, MDY"


def test_a_port_that_is_taken_meanwhile_is_left_to_its_owner(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        # Further ones, as somebody else may take the next one, too.
        ports = itertools.chain([taken.getsockname()[1]], iter(free_port, None))
        monkeypatch.setattr(process, "free_port", lambda: next(ports))
        assert start().port != taken.getsockname()[1]


def test_the_end_of_the_thread_that_started_it_is_not_the_end_of_the_server(
    start: Start,
) -> None:
    with ThreadPoolExecutor(1) as executor:
        server = executor.submit(start).result()
    pid = server_pid(server.directory)
    time.sleep(0.5)  # longer than the launcher's look at its parent
    assert is_alive(pid)
    assert ask(server, "SELECT 1") == 1


def test_data_in_a_named_directory_stay(start: Start, folder: Path) -> None:
    with start(folder / "new" / "place") as server:
        do(server, "CREATE TABLE t AS SELECT 7 AS n")
    assert ask(start(folder / "new" / "place"), "SELECT n FROM t") == 7


_WITHOUT_STREAMS = """
import os, sys
for stream in (0, 1, 2):
    os.close(stream)
sys.stdin = sys.stdout = None
from alkstore_postgres import embedded

for directory in (None, sys.argv[1]):
    with embedded.server(directory, bin_directory=sys.argv[2] or None) as server:
        server.create_database("d")
"""


def test_a_daemon_without_streams_can_start_a_server(
    folder: Path, server_programs: str | None
) -> None:
    done = subprocess.run(
        [sys.executable, "-c", _WITHOUT_STREAMS, str(folder / "place"), server_programs or ""],
        check=False,
    )
    assert done.returncode == 0


_WITHOUT_WARNINGS = """
import os, sys
from alkstore_postgres import embedded

server = embedded.server(sys.argv[1], bin_directory=sys.argv[2] or None)
sharer = embedded.server(sys.argv[1], bin_directory=sys.argv[2] or None)
server.restart()
fork = os.fork()
if fork == 0:
    sys.exit(0)
assert os.waitpid(fork, 0)[1] == 0
del sharer
embedded.server(bin_directory=sys.argv[2] or None).stop()
"""


def test_nothing_warns_in_the_development_mode(used: Path, server_programs: str | None) -> None:
    options = ["-X", "dev", "-W", "error", "-c", _WITHOUT_WARNINGS]
    done = subprocess.run(
        [sys.executable, *options, str(used), server_programs or ""],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
