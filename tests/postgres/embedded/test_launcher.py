"""The small process between owner and server may be signalled and killed: all goes on."""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path

import pytest

from alkstore_postgres import embedded
from tests.support.embedding import ask, do, is_alive, parent_of, server_pid
from tests.support.waiting import wait_until

on_linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="promised for Linux")


@on_linux
def test_a_killed_launcher_takes_the_server_along_and_the_owner_starts_it_again(
    own_server: embedded.EmbeddedServer,
) -> None:
    do(own_server, "CREATE TABLE t AS SELECT 7 AS n")
    pid = server_pid(own_server.directory)
    os.kill(parent_of(pid), signal.SIGKILL)
    wait_until(lambda: not is_alive(pid))
    own_server.restart()
    assert ask(own_server, "SELECT n FROM t") == 7


@on_linux
def test_a_signal_to_the_launcher_alone_changes_nothing_and_does_not_keep_it_busy(
    own_server: embedded.EmbeddedServer,
) -> None:
    launcher = parent_of(server_pid(own_server.directory))

    def ticks() -> int:
        fields = Path(f"/proc/{launcher}/stat").read_text().rpartition(")")[2].split()
        return int(fields[11]) + int(fields[12])

    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        os.kill(launcher, number)
    before = ticks()
    time.sleep(0.6)
    assert ticks() - before < 10  # of 100 in a second
    assert ask(own_server, "SELECT 1") == 1
