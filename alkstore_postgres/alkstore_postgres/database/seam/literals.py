"""Writing parameters into a statement, for a driver without server-side parameters."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import datetime
from typing import Any

from alkstore_postgres.database.cursor import Params

_PLACEHOLDER = re.compile(rb"%(?:\((?P<name>\w+)\)s|(?P<percent>%)|)")
_SPECIAL = re.compile(r"[^ -&(-\[\]-~]")


def render(query: bytes, params: Params) -> bytes:
    """Return *query* with *params* as literals in the place of ``%(name)s``.

    The literals are ASCII and mean the same under any ``client_encoding``,
    ``standard_conforming_strings``, ``DateStyle`` and ``bytea_output``.

    Raises:
        TypeError: A parameter is of a kind that no statement of the seam has.
        KeyError: A parameter is missing.
    """
    values = params or {}

    def replacement(match: re.Match[bytes]) -> bytes:
        name = match["name"]
        if name is not None:
            return literal(values[name.decode()])
        if match["percent"] is None:
            msg = "a lone % in a statement"
            raise ValueError(msg)
        return b"%"

    return _PLACEHOLDER.sub(replacement, query)


def literal(value: Any) -> bytes:
    """Return *value* as a literal of SQL."""
    for kind, write in _WRITERS:
        if isinstance(value, kind):
            return write(value)
    msg = f"no literal for a {type(value).__name__}"
    raise TypeError(msg)


def _text(value: str) -> bytes:
    return b"E'%s'" % _SPECIAL.sub(_escape, value).encode("ascii")


def _escape(match: re.Match[str]) -> str:
    if match[0] == "\0":
        msg = "PostgreSQL holds no NUL in a text"
        raise ValueError(msg)
    return f"\\U{ord(match[0]):08x}"


def _moment(value: datetime) -> bytes:
    if value.tzinfo is None:
        msg = "no literal for a datetime without a time zone"
        raise TypeError(msg)
    return b"'%s'::timestamp with time zone" % value.isoformat().encode()


# The first kind that fits counts: a bool is an int as well.
_WRITERS: tuple[tuple[type | tuple[type, ...], Callable[[Any], bytes]], ...] = (
    (type(None), lambda _: b"NULL"),
    (bool, lambda value: b"true" if value else b"false"),
    (str, _text),
    (int, lambda value: b"'%d'::bigint" % value),
    (float, lambda value: b"'%r'::double precision" % float(value)),
    (bytes, lambda value: b"E'\\\\x%s'::pg_catalog.bytea" % value.hex().encode()),
    (datetime, _moment),
)
