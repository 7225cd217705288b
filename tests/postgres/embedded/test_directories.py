"""However a directory was left, the next start works, and nothing of anybody else is touched."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from alkstore_postgres import embedded
from alkstore_postgres.embedded import EmbeddedServerError
from alkstore_postgres.embedded.account import choose_account
from alkstore_postgres.embedded.pidfile import clear_stale_pid_file
from tests.support.embedding import Start, ask


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


ODD_NAMES = ["white space", 'it\'s "quoted" $HOME %s \\', "gr\u00fc\u00dfe"]


@pytest.mark.parametrize("name", [*ODD_NAMES, os.fsdecode(b"\xff")], ids=ascii)
def test_a_directory_may_have_any_name(start: Start, folder: Path, name: str) -> None:
    try:
        (folder / name).mkdir()
    except OSError:
        pytest.skip("the file system does not take such a name")
    with start(folder / name) as server:
        assert ask(server, "SELECT 1") == 1
        assert start(folder / name).shared


def test_a_directory_is_one_under_all_its_names(
    start: Start, used: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = start(used)
    (used.parent / "link").symlink_to(used)
    monkeypatch.chdir(used.parent)
    assert start(used.parent / "link").shared
    assert start(Path(used.name)).url == server.url
