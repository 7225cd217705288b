"""The README's first screen: two commands on a fresh machine, and CI runs exactly these."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

from tests.docs.markdown import ROOT, blocks

README = ROOT / "README.md"
CI = ROOT / ".ci"
FIRST_SCREEN = 20


def commands() -> list[str]:
    return [block.source for block in blocks(README) if block.language == "sh"]


def test_the_first_two_blocks_are_one_command_each() -> None:
    first_two = blocks(README)[:2]
    assert [block.language for block in first_two] == ["sh", "sh"]
    for block in first_two:
        assert len(block.source.splitlines()) == 1
        assert block.line <= FIRST_SCREEN


def test_the_first_runs_the_demonstration_and_the_second_the_tests() -> None:
    demonstration, tests = commands()[:2]
    assert "examples/shop.py" in demonstration
    assert (ROOT / "examples" / "shop.py").exists()
    assert "-m pytest" in tests


def test_each_sets_up_what_it_needs() -> None:
    for command in commands()[:2]:
        assert command.startswith("python3 -m venv .venv && .venv/bin/pip install ")


def test_ci_reads_its_commands_out_of_the_readme() -> None:
    for number, command in enumerate(commands()[:2], start=1):
        printed = subprocess.run(
            [str(CI / "readme-command"), str(number)], check=True, capture_output=True, text=True
        )
        assert printed.stdout == command


def test_ci_runs_both_as_they_stand() -> None:
    script = (CI / "run").read_text(encoding="utf-8")
    read = re.findall(r"^(\w+)=\$\(\.ci/readme-command (\d)\)$", script, re.MULTILINE)
    run = re.findall(r'^ *bash -euo pipefail -c "\$(\w+)"', script, re.MULTILINE)
    assert [dict(read)[name] for name in run] == ["2", "1"]


# Stands for every program that CI starts; the Pythons make environments of it.
_STAND_IN = """#!/bin/sh
case "$0 $*" in
  *"-m venv"*)
    for last; do :; done
    mkdir -p "$last/bin"
    for tool in pip python ruff mypy basedpyright lint-imports mkdocs; do
      ln -s "{stand_in}" "$last/bin/$tool"
    done ;;
  *suite* | *"-m pytest"*) echo "=== 3 passed in 0.10s ===" ;;
esac
"""


@pytest.mark.parametrize(("command", "status"), [("suite", 0), ("true", 1), ("# later", 1)])
def test_a_command_that_runs_no_tests_is_not_taken_for_the_suite(
    tmp_path: Path, command: str, status: int
) -> None:
    programs, clone = tmp_path / "programs", tmp_path / "clone"
    for folder in (programs, clone / ".ci", clone / "examples"):
        folder.mkdir(parents=True)
    for package in ("alkstore", "alkstore_postgres"):
        (clone / package).mkdir()
    for script in ("run", "readme-command"):
        (clone / ".ci" / script).symlink_to(CI / script)
    (clone / "README.md").write_text(f"```sh\ntrue\n```\n\n```sh\n{command}\n```\n")
    stand_in = programs / "suite"
    stand_in.write_text(_STAND_IN.format(stand_in=stand_in))
    stand_in.chmod(0o755)
    for name in ("python3", "python3.10", "python3.13", "pgbouncer", "openssl"):
        (programs / name).symlink_to(stand_in)
    done = subprocess.run(
        [clone / ".ci" / "run"],
        env={"PATH": f"{programs}:{os.environ['PATH']}", "TMPDIR": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == status, done.stdout + done.stderr
    assert ("no tests: main.log" in done.stderr) == bool(status)
