"""The functions that tell the store clock, and a hook for tests that need to set it.

Statements are written with the server's own functions. A test that has to step time puts two
functions of its own in their place, for the one schema that it works in, before it opens a
store there. Nothing else does: an application's time is the server's.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ClockFunctions:
    """Two calls, written as SQL that names its schema and holds no percent sign.

    Attributes:
        statement: In place of ``pg_catalog.statement_timestamp()``: ``STABLE``, so that an
            index carries a comparison with it.
        moment: In place of ``pg_catalog.clock_timestamp()``: goes on while a statement waits.
    """

    statement: str
    moment: str


_replaced: dict[str, ClockFunctions] = {}


@contextmanager
def replaced(schema: str, functions: ClockFunctions) -> Iterator[None]:
    """Let stores that are opened in *schema* meanwhile ask *functions* for the time."""
    _replaced[schema] = functions
    try:
        yield
    finally:
        del _replaced[schema]


def with_clock_of(schema: str, statement: str) -> str:
    """Return *statement* with the functions that stores in *schema* ask for the time."""
    functions = _replaced.get(schema)
    if functions is None:
        return statement
    return statement.replace("pg_catalog.statement_timestamp()", functions.statement).replace(
        "pg_catalog.clock_timestamp()", functions.moment
    )
