"""Root and everybody else can start a server; PostgreSQL itself never runs as root."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest

from alkstore_postgres.embedded import EmbeddedServerError
from alkstore_postgres.embedded.account import Account, choose_account
from alkstore_postgres.embedded.binaries import find_binaries
from tests.support.embedding import Start, ask, server_pid
from tests.support.reachable import python_for

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root becomes another user")


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


@as_root
def test_a_link_in_a_closed_folder_of_root_is_no_obstacle(
    start: Start, folder: Path, server_programs: str | None
) -> None:
    closed = _closed(folder)
    (folder / "open").mkdir()
    (closed / "place").symlink_to(folder / "open")
    (closed / "bin").symlink_to(find_binaries(server_programs))
    server = start(closed / "place" / "here", bin_directory=closed / "bin")
    assert ask(server, "SELECT 1") == 1
