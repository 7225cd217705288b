"""Looking at an embedded server and its processes from outside."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psycopg

from alkstore_postgres import embedded
from tests.support.processes import Parent

Start = Callable[..., embedded.EmbeddedServer]


def ask(server: embedded.EmbeddedServer | str, query: str) -> Any:
    """Return the first column of the first row."""
    url = server if isinstance(server, str) else server.url
    with psycopg.connect(url, autocommit=True) as connection:
        row = connection.execute(query.encode()).fetchone()
    assert row is not None
    return row[0]


def do(server: embedded.EmbeddedServer, statement: str) -> None:
    """Execute a statement."""
    with psycopg.connect(server.url, autocommit=True) as connection:
        connection.execute(statement.encode())


def server_pid(directory: Path) -> int:
    """Return the process number of the server over *directory*."""
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
    """Return the process number of its parent."""
    found = subprocess.run(["ps", "-o", "ppid=", "-p", str(pid)], capture_output=True, check=True)
    return int(found.stdout)


def hold_server(parent: Parent, directory: str | None, programs: str | None) -> None:
    """Be a child that starts a server and ends, by itself, when it is told to."""
    server = embedded.server(directory, bin_directory=programs)
    do(server, "CREATE TABLE IF NOT EXISTS t AS SELECT 7 AS n")
    pid = server_pid(server.directory)
    parent.say([str(server.directory), pid, parent_of(pid)])
    parent.hear()
