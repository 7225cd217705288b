"""Whatever ends the process that started a server, and however, nothing of it stays behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from alkstore_postgres import embedded
from alkstore_postgres.embedded import EmbeddedServerError
from alkstore_postgres.embedded.account import Account
from alkstore_postgres.embedded.filelock import is_locked
from alkstore_postgres.embedded.home import Home
from alkstore_postgres.embedded.launching import launch
from tests.support.embedding import Start, ask, do, hold_server, is_alive, server_pid
from tests.support.processes import Children, Parent
from tests.support.waiting import wait_until

on_linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="promised for Linux")


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


def hold_server_and_fork(parent: Parent, directory: str, programs: str | None) -> None:
    server = embedded.server(directory, bin_directory=programs)
    do(server, "CREATE TABLE t AS SELECT 7 AS n")
    if os.fork() == 0:
        parent.hear()
    parent.say("up")
    parent.hear()


def test_a_server_that_dies_with_its_owner_is_not_shared(
    children: Children, start: Start, used: Path, server_programs: str | None
) -> None:
    child = children.start(hold_server_and_fork, str(used), server_programs)
    assert child.hear() == "up"
    child.kill()  # the fork keeps the server from noticing it at once
    server = start(used)
    assert not server.shared
    assert ask(server, "SELECT n FROM t") == 7


_INITDB_THAT_HANGS = """#!/bin/sh
sleep 60 &
echo $$ $! > "${1#--pgdata=}/pids.new"
mv "${1#--pgdata=}/pids.new" "${1#--pgdata=}/pids"
wait
"""


def test_a_parent_that_is_killed_during_initdb_leaves_nothing(
    children: Children, folder: Path
) -> None:
    programs = folder / "bin"
    programs.mkdir()
    (programs / "postgres").touch()
    (programs / "initdb").write_text(_INITDB_THAT_HANGS)
    (programs / "initdb").chmod(0o755)
    environment = {**os.environ, "TMPDIR": str(folder)}
    child = children.start(hold_server, None, str(programs), env=environment)
    wait_until(lambda: list(folder.glob("alkstore-*/initdb-*/pids")))
    (file,) = folder.glob("alkstore-*/initdb-*/pids")
    pids = [int(word) for word in file.read_text().split()]
    assert all(map(is_alive, pids))
    child.kill()
    wait_until(lambda: not any(map(is_alive, pids)))
    wait_until(lambda: not list(folder.glob("alkstore-*")))


def hold_what_takes_its_time(parent: Parent, path: str) -> None:
    home = Home.open(path)
    # It does not listen to the orderly stop; only the firmer one ends it.
    command = ["/bin/sh", "-c", "trap '' INT; echo; exec sleep 60"]
    with launch(home, Account(None, None), command, output=subprocess.PIPE) as launcher:
        assert launcher.stdout is not None
        launcher.stdout.readline()
        parent.say(launcher.pid)
        parent.hear()


def test_a_server_without_a_parent_has_no_time_to_lose(children: Children, folder: Path) -> None:
    child = children.start(hold_what_takes_its_time, str(folder))
    launcher = child.hear()
    child.kill()
    wait_until(lambda: not is_alive(launcher), timeout=5.0)  # 20 seconds with a parent
    assert not is_locked(folder / "guard")


def hold_server_through_ctrl_c(parent: Parent, directory: str, programs: str | None) -> None:
    with embedded.server(directory, bin_directory=programs) as server:
        try:
            parent.say(server_pid(server.directory))
            parent.hear()
        except KeyboardInterrupt:
            parent.say(ask(server, "SELECT 'still there'"))


def test_ctrl_c_in_the_terminal_reaches_the_owner_and_not_its_server(
    children: Children, used: Path, server_programs: str | None
) -> None:
    child = children.start(
        hold_server_through_ctrl_c, str(used), server_programs, start_new_session=True
    )
    pid = child.hear()
    os.killpg(child.pid, signal.SIGINT)
    assert child.hear() == "still there"
    child.finish()
    assert not is_alive(pid)


def test_a_stop_that_is_interrupted_is_a_stop_all_the_same(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = start()
    pid = server_pid(server.directory)
    wait, calls = subprocess.Popen.wait, []

    def interrupted(self: subprocess.Popen[bytes], timeout: float | None = None) -> int:
        calls.append(self)
        if len(calls) == 1:
            raise KeyboardInterrupt
        return wait(self, timeout)

    monkeypatch.setattr(subprocess.Popen, "wait", interrupted)
    with pytest.raises(KeyboardInterrupt):
        server.stop()
    assert not is_alive(pid)
    assert not server.directory.exists()
