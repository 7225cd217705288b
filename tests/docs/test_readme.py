"""The README's first screen: two commands on a fresh machine, and CI runs exactly these."""

from __future__ import annotations

import re
import subprocess

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
    run = re.findall(r'^bash -euo pipefail -c "\$(\w+)"', script, re.MULTILINE)
    assert [dict(read)[name] for name in run] == ["2", "1"]
