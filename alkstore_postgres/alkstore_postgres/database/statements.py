"""SQL files with named blocks, bound to a schema once."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from importlib.resources import files

from psycopg import sql

_NAME = re.compile(r"^-- name: (?P<name>\w+)$", re.MULTILINE)
_COMMENT = re.compile(r"^\s*--.*\n?", re.MULTILINE)


class Statements:
    """The statements of one ``.sql`` file, with the schema's name in its place.

    A file holds blocks that start with ``-- name: <name>``. The comment lines that follow
    say what the statement promises and which index carries it; they are not sent.
    ``{schema}`` stands for the schema's quoted name. Values are always parameters.

    Args:
        package: The package whose folder holds the file.
        file: The file's name.
        schema: The schema's name, unquoted.
    """

    def __init__(self, package: str, file: str, schema: str) -> None:
        self._origin = f"{package}/{file}"
        self._queries = {
            name: sql.SQL(text).format(schema=sql.Identifier(schema)).as_bytes(None)
            for name, text in _blocks(package, file).items()
        }

    def __getitem__(self, name: str) -> bytes:
        """Return the statement called *name*."""
        try:
            return self._queries[name]
        except KeyError:
            msg = f"{self._origin} has no statement {name!r}"
            raise LookupError(msg) from None

    def __iter__(self) -> Iterator[str]:
        """Iterate over the names of the statements."""
        return iter(tuple(self._queries))


@cache
def _blocks(package: str, file: str) -> dict[str, str]:
    text = (files(package) / file).read_text(encoding="utf-8")
    parts = _NAME.split(text)
    return {
        name: _COMMENT.sub("", body).strip().rstrip(";")
        for name, body in zip(parts[1::2], parts[2::2], strict=True)
    }
