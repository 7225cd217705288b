"""Pages whose blocks are files: they are written as they stand, and the page's command is run."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.markdown import ROOT, blocks

HOW_TO = ROOT / "docs" / "how-to"

_NAMED = re.compile(r"# (?P<name>[\w/]+\.py)\n")


def write(page: Path, folder: Path) -> None:
    """Write the blocks of *page* that begin with a file's name."""
    for block in blocks(page):
        named = _NAMED.match(block.source)
        if block.language == "python" and named is not None:
            file = folder / named["name"]
            file.parent.mkdir(exist_ok=True)
            file.write_text(block.source, encoding="utf-8")


def commands(page: Path) -> list[str]:
    return [block.source.strip() for block in blocks(page) if block.language == "sh"]


def run(command: str, folder: Path, **settings: str) -> str:
    """Run a command of a page with this interpreter; return what it said."""
    program, *arguments = shlex.split(command)
    assert program == "python"
    done = subprocess.run(
        [sys.executable, *arguments],
        cwd=folder,
        env={**os.environ, **settings, "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def test_the_flask_application_is_tested_as_the_page_says(tmp_path: Path) -> None:
    page = HOW_TO / "test-your-application.md"
    write(page, tmp_path)
    (command, _, _) = commands(page)
    assert "6 passed" in run(command, tmp_path)  # the one under freezegun among them


def test_the_django_application_is_tested_as_the_page_says(
    tmp_path: Path, database_url: str
) -> None:
    page = HOW_TO / "test-your-application.md"
    write(page, tmp_path)
    (_, command, _) = commands(page)
    assert "Ran 5 tests" in run(command, tmp_path, DATABASE_URL=database_url)


def test_the_test_under_freezegun_passes_as_the_page_says(tmp_path: Path) -> None:
    page = HOW_TO / "test-your-application.md"
    write(page, tmp_path)
    (_, _, command) = commands(page)
    assert "1 passed" in run(command, tmp_path)


@pytest.mark.timeout(300)
def test_an_engine_of_ones_own_passes_the_suite_as_the_page_says(tmp_path: Path) -> None:
    page = HOW_TO / "build-an-engine.md"
    write(page, tmp_path)
    (command,) = commands(page)
    said = run(command, tmp_path)
    assert " passed" in said
    assert "skipped" not in said
