"""Whoever installs an extra finds it explained, and it asks for what the tests ask for."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]


def extras() -> dict[str, list[str]]:
    """Return the extras of the engine's distribution and what they ask for."""
    project = (ROOT / "alkstore_postgres" / "pyproject.toml").read_text(encoding="utf-8")
    section = project.split("[project.optional-dependencies]\n")[1].split("\n[")[0]
    return {
        name: re.findall(r'"([^"]+)"', wanted)
        for name, wanted in re.findall(r"^(\w+) = \[(.*)\]$", section, re.MULTILINE)
    }


def test_each_extra_is_in_the_readme_of_the_distribution() -> None:
    readme = (ROOT / "alkstore_postgres" / "README.md").read_text(encoding="utf-8")
    table = [line.split("|")[1] for line in readme.splitlines() if line.startswith("| `")]
    named = {name for cell in table for name in re.findall(r"`(\w+)`", cell)}
    assert named == set(extras())
    assert {"binary", "embedded", "flask", "django", "sqlalchemy"} <= named


def test_a_framework_is_asked_for_in_the_versions_that_the_tests_ask_for() -> None:
    tested = (ROOT / "tests" / "requirements.txt").read_text(encoding="utf-8")
    tested = re.sub(r"\[\w+\]", "", tested)
    for extra in ("flask", "django", "sqlalchemy"):
        (wanted,) = extras()[extra]
        assert wanted in tested.splitlines()
