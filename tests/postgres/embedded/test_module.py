"""A server for the length of a look, from the command line."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

from tests.support.embedding import ask


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
