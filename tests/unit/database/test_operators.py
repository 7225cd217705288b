"""Naming operators: what the rewriting does, and what it refuses."""

from __future__ import annotations

import pytest

from alkstore_postgres.database.operators import qualify

CASES = {
    "a = b": "a OPERATOR(pg_catalog.=) b",
    "a <= b AND NOT c": "a OPERATOR(pg_catalog.<=) b AND NOT c",
    "a < b + c": "a OPERATOR(pg_catalog.<) (b OPERATOR(pg_catalog.+) c)",
    "a - b - c >= d": (
        "(a OPERATOR(pg_catalog.-) b OPERATOR(pg_catalog.-) c) OPERATOR(pg_catalog.>=) d"
    ),
    "a = ANY (%(ids)s::bigint[])": "a OPERATOR(pg_catalog.=) ANY (%(ids)s::bigint[])",
    "(a, b) > (c, d)": "(a, b) OPERATOR(pg_catalog.>) (c, d)",
    "SET a = b + 1, c = d = e WHERE f = g": (
        "SET a = b OPERATOR(pg_catalog.+) 1, c = d OPERATOR(pg_catalog.=) e"
        " WHERE f OPERATOR(pg_catalog.=) g"
    ),
    "f(secs => a + b)": "f(secs => a OPERATOR(pg_catalog.+) b)",
    "count(*)": "count(*)",
    "a = '= < + it''s'": "a OPERATOR(pg_catalog.=) '= < + it''s'",
    '"a = b" <> c': '"a = b" OPERATOR(pg_catalog.<>) c',
}


@pytest.mark.parametrize("written", CASES)
def test_operators_are_named_and_nothing_else_changes(written: str) -> None:
    assert qualify(written) == CASES[written]


@pytest.mark.parametrize("written", ["a / b", "a || b", "a * b", "a %% b", "f(a))", "f(a"])
def test_what_was_not_foreseen_is_refused_rather_than_sent(written: str) -> None:
    with pytest.raises(ValueError, match=r"operator|parentheses"):
        qualify(written)
