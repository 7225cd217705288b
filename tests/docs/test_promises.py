"""The page of promises names every test of the contract suite, and no other."""

from __future__ import annotations

import re
from collections import Counter

from alkstore.testing.contract import Contract, EngineContract, GoingClockContract
from tests.docs.markdown import ROOT

PAGE = ROOT / "docs" / "reference" / "promises.md"


def own_tests(part: type) -> list[str]:
    return [name.removeprefix("test_") for name in vars(part) if name.startswith("test_")]


def parts() -> list[type]:
    found = {*EngineContract.__mro__, *GoingClockContract.__mro__} - {object, Contract}
    return sorted(found, key=lambda part: part.__name__)


def test_the_page_names_each_test_of_the_suite_once() -> None:
    words = re.findall(r"`([a-z]\w*)`", PAGE.read_text(encoding="utf-8"))
    named = Counter(word for word in words if word.count("_") > 2)
    tests = Counter(name for part in parts() for name in own_tests(part))
    assert sorted((named - tests).elements()) == []
    assert sorted((tests - named).elements()) == []


def test_each_test_is_of_a_class_above_its_table_or_of_one_that_its_row_names() -> None:
    classes = {part.__name__: part for part in parts()}
    above: list[type] = []
    astray = []
    for line in PAGE.read_text(encoding="utf-8").splitlines():
        words = re.findall(r"`(\w+)`", line)
        here = [classes[word] for word in words if word in classes]
        if here and not line.startswith("|"):
            above, here = here, []
        astray += [
            word
            for word in words
            if word[0].islower()
            and word.count("_") > 2
            and not any(hasattr(part, f"test_{word}") for part in above + here)
        ]
    assert astray == []


def test_no_part_of_the_suite_hides_a_test_of_another() -> None:
    names = Counter(name for part in parts() for name in own_tests(part))
    assert [name for name, count in names.items() if count > 1] == []
