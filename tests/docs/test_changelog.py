"""Both distributions carry one version, and the changelog has a place for what comes next."""

from __future__ import annotations

import re

from tests.docs.markdown import ROOT


def versions() -> set[str]:
    found = set()
    for distribution in ("alkstore", "alkstore_postgres"):
        text = (ROOT / distribution / "pyproject.toml").read_text(encoding="utf-8")
        found.update(re.findall(r'^version = "(.+)"$', text, re.MULTILINE))
    return found


def test_both_distributions_have_the_same_version() -> None:
    assert len(versions()) == 1


def test_the_changelog_has_an_unreleased_section() -> None:
    assert "\n## [Unreleased]\n" in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
