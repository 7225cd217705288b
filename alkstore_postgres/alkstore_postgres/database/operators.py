"""Operators that mean what PostgreSQL means by them, whatever the session's search path.

An operator's name is looked up along the search path like a table's, and a path may put
another schema before ``pg_catalog``. Statements stay written for reading; what is sent
names the schema of each operator. A named operator binds like any other and no longer like
``+`` or ``<``, so what is computed below a comparison is put in parentheses.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

_PART = re.compile(
    r"""
    '(?:[^']|'')*'                              # a text
    | "(?:[^"]|"")*"                            # a name in quotes
    | %\(\w+\)s                                 # a parameter
    | \{\w+\}                                   # a place in the text
    | \btimestamp\s+with\s+time\s+zone\b        # a type of several words
    | \w+
    | :: | => | <= | >= | <> | != | \|\|
    | %%
    | \S
    | \s+
    """,
    re.VERBOSE,
)

_END = ""
_COMPARISONS = frozenset({"=", "<", ">", "<=", ">=", "<>", "!="})
_SUMS = frozenset({"+", "-"})
_REFUSED = frozenset({"*", "||", "/", "%%", "^", "~"})

# fmt: off
_CLAUSES = frozenset({"FROM", "RETURNING", "SET", "WHERE"})
_BETWEEN_EXPRESSIONS = _CLAUSES | frozenset(
    (
        ",", ";", "=>",
        "ALL", "AND", "AS", "ASC", "BY", "CASE", "CONFLICT", "CROSS", "DELETE", "DESC",
        "DISTINCT", "DO", "ELSE", "END", "EXCEPT", "FOR", "FULL", "GROUP", "HAVING", "IN",
        "INNER", "INSERT", "INTO", "IS", "JOIN", "KEY", "LATERAL", "LEFT", "LIMIT",
        "LOCKED", "MATERIALIZED", "NO", "NOT", "NOTHING", "NOWAIT", "NULLS", "OF", "OFFSET",
        "ON", "OR", "ORDER", "OUTER", "OVER", "RECURSIVE", "RIGHT", "SELECT", "SHARE",
        "SKIP", "THEN", "UNION", "UPDATE", "USING", "VALUES", "WHEN", "WITH"
    )
)
# fmt: on


def qualify(statement: str) -> str:
    """Return *statement* with every operator named as one of ``pg_catalog``.

    Raises:
        ValueError: There is an operator that no statement has needed so far, or the
            parentheses do not match.
    """
    return _level(iter([*_PART.findall(statement), _END]), until=_END)


def _level(parts: Iterator[str], until: str) -> str:
    """Rewrite up to *until*: the parenthesis that closes this level, or the end."""
    done: list[str] = []
    expression: list[str] = []
    clause = ""
    assigning = False
    for part in parts:
        word = part.upper()
        if part in {")", _END}:
            if part != until:
                msg = "parentheses do not match"
                raise ValueError(msg)
            break
        if part == "(":
            expression.append(f"({_level(parts, until=')')})")
        elif (
            word in _BETWEEN_EXPRESSIONS or part in {",", ";", "=>"} or (part == "=" and assigning)
        ):
            done += [*_expression(expression), part]
            expression = []
            clause = word if word in _CLAUSES else clause
            # The first sign of equality of each item of a SET is not an operator.
            assigning = clause == "SET" and (word == "SET" or part == ",")
        else:
            expression.append(part)
    done += _expression(expression)
    return "".join(done)


def _expression(parts: list[str]) -> Iterator[str]:
    """Rewrite one expression without keywords; what is in parentheses is done already."""
    if parts == ["*"]:
        yield "*"
        return
    side: list[str] = []
    for part in parts:
        if part in _REFUSED:
            msg = f"the operator {part} is not foreseen in a statement"
            raise ValueError(msg)
        if part in _COMPARISONS:
            yield from _sum(side, within_comparison=True)
            yield f"OPERATOR(pg_catalog.{part})"
            side = []
        else:
            side.append(part)
    yield from _sum(side, within_comparison=len(side) != len(parts))


def _sum(parts: list[str], *, within_comparison: bool) -> Iterator[str]:
    named = [f"OPERATOR(pg_catalog.{part})" if part in _SUMS else part for part in parts]
    if named == parts or not within_comparison:
        yield from named
        return
    text = "".join(named)
    inner = text.strip()
    before, _, after = text.partition(inner)
    yield f"{before}({inner}){after}"
