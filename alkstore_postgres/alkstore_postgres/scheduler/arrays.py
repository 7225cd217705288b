"""Arrays as PostgreSQL writes them, for the statements of large ticks.

The driver converts a list item by item, which costs a tick over thousands of schedules more
than all its decisions. The literals below are parameters like any other value.
"""

from __future__ import annotations

from collections.abc import Iterable

from alkstore_postgres.scheduler.instants import from_micros


def array(items: Iterable[str]) -> str:
    """Return the literal of an array of *items*, each a number or quoted."""
    return "{" + ",".join(items) + "}"


def quoted(text: str) -> str:
    """Return *text* as an item of an array literal."""
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def moments(instants: Iterable[int]) -> str:
    """Return the literal of an array of times, given in microseconds since the epoch."""
    return array([from_micros(micros).isoformat() for micros in instants])
