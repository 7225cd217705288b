"""Reads fenced blocks out of the Markdown pages of the project."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]

_FENCE = re.compile(r"^```(?P<info>.*)$")
_EXEMPT = re.compile(r"^<!-- not run: (?P<reason>.+) -->$")
_BEFORE = "<!-- before:"


@dataclass(frozen=True)
class Block:
    """A fenced block.

    Attributes:
        language: The first word after the fence.
        line: The number of its first line inside the fence, from 1.
        source: What is inside.
        exempt: Why it is not run, or ``None``.
    """

    language: str
    line: int
    source: str
    exempt: str | None = None


def blocks(page: Path) -> list[Block]:
    """Return the blocks of *page* from top to bottom, hidden ``before`` comments included."""
    found: list[Block] = []
    lines = iter(enumerate(page.read_text(encoding="utf-8").splitlines(), start=1))
    exempt: str | None = None
    for number, line in lines:
        if line == _BEFORE:
            source = _until(lines, "-->", page)
            found.append(Block("python", number + 1, source))
        elif fence := _FENCE.match(line):
            language = fence["info"].strip()
            found.append(Block(language, number + 1, _until(lines, "```", page), exempt))
            exempt = None
        elif exemption := _EXEMPT.match(line):
            exempt = exemption["reason"]
    return found


def _until(lines: Iterator[tuple[int, str]], end: str, page: Path) -> str:
    source: list[str] = []
    for _, line in lines:
        if line == end:
            return "\n".join(source) + "\n"
        source.append(line)
    msg = f"{page}: a block has no end"
    raise AssertionError(msg)


def pages() -> list[Path]:
    """Return every page whose examples a reader may copy."""
    readmes = [ROOT / "README.md", *sorted(ROOT.glob("alkstore*/README.md"))]
    return readmes + sorted((ROOT / "docs").rglob("*.md"))
