"""Operators that mean what PostgreSQL means by them, whatever the session's search path.

An operator's name is looked up along the search path like a table's, and a path may put
another schema before ``pg_catalog``. Statements stay written for reading; what is sent
names the schema of each operator. A named operator binds like any other and no longer like
``+`` or ``<``, so what is computed below a comparison is put in parentheses.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

_TOKEN = re.compile(
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

_COMPARISONS = frozenset({"=", "<", ">", "<=", ">=", "<>", "!="})
_SUMS = frozenset({"+", "-"})
_REFUSED = frozenset({"||", "/", "%%", "^", "~"})

_BETWEEN_EXPRESSIONS = frozenset(
    """
    ALL AND AS ASC BY CASE CONFLICT CROSS DELETE DESC DISTINCT DO ELSE END EXCEPT FOR FROM FULL
    GROUP HAVING IN INNER INSERT INTO IS JOIN KEY LATERAL LEFT LIMIT LOCKED MATERIALIZED NO NOT
    NOTHING NOWAIT NULLS OF OFFSET ON OR ORDER OUTER OVER RECURSIVE RETURNING RIGHT SELECT SET
    SHARE SKIP THEN UNION UPDATE USING VALUES WHEN WHERE WITH
    """.split()
)


def qualify(statement: str) -> str:
    """Return *statement* with every operator named as one of ``pg_catalog``.

    Raises:
        ValueError: There is an operator that no statement has needed so far.
    """
    tokens = iter(_TOKEN.findall(statement))
    text = _level(tokens)
    if next(tokens, None) is not None:
        msg = "a closing parenthesis too many"
        raise ValueError(msg)
    return text


def _level(tokens: Iterator[str]) -> str:
    """Rewrite up to the parenthesis that closes this level, or the end."""
    done: list[str] = []
    expression: list[str] = []
    assigning = False
    for token in tokens:
        word = token.upper()
        if token == ")":
            break
        if token == "(":
            expression.append(f"({_level(tokens)})")
        elif token == "=" and assigning:
            done += [*_expression(expression), token]
            expression, assigning = [], False
        elif word in _BETWEEN_EXPRESSIONS or token in {",", ";", "=>"}:
            done += [*_expression(expression), token]
            expression = []
            in_set = word == "SET" or (token == "," and _in_assignments(done))
            assigning = in_set
        else:
            expression.append(token)
    done += _expression(expression)
    return "".join(done)


def _in_assignments(done: Iterable[str]) -> bool:
    """Return whether the latest clause of this level is a ``SET``."""
    clauses = {"SET", "FROM", "WHERE", "RETURNING", "SELECT", "VALUES"}
    last = [token.upper() for token in done if token.upper() in clauses]
    return bool(last) and last[-1] == "SET"


def _expression(tokens: list[str]) -> Iterator[str]:
    """Rewrite one expression without keywords; what is in parentheses is done already."""
    if tokens == ["*"]:
        yield "*"
        return
    side: list[str] = []
    for token in tokens:
        if token in _REFUSED or token == "*":
            msg = f"the operator {token} is not foreseen in a statement"
            raise ValueError(msg)
        if token in _COMPARISONS:
            yield from _sum(side, within_comparison=True)
            yield f"OPERATOR(pg_catalog.{token})"
            side = []
        else:
            side.append(token)
    yield from _sum(side, within_comparison=len(side) != len(tokens))


def _sum(tokens: list[str], *, within_comparison: bool) -> Iterator[str]:
    named = [f"OPERATOR(pg_catalog.{one})" if one in _SUMS else one for one in tokens]
    if named == tokens or not within_comparison:
        yield from named
        return
    text = "".join(named)
    inner = text.strip()
    before, _, after = text.partition(inner)
    yield f"{before}({inner}){after}"
