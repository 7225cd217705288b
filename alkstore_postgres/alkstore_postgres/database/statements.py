"""SQL files with named blocks, bound to a schema once."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cache
from importlib.resources import files

from psycopg import sql

from alkstore_postgres.database.client_encoding import identifier
from alkstore_postgres.database.operators import qualify
from alkstore_postgres.database.store_clock import with_clock_of

_TITLE = re.compile(r"^-- (?P<kind>name|part): (?P<name>\w+)$", re.MULTILINE)
_PLACE = re.compile(r"\{(\w+)\}")
_COMMENT = re.compile(r"^\s*--.*\n?", re.MULTILINE)
_PARAMETER = re.compile(rb"%%|%\((\w+)\)s")  # a doubled percent sign begins none
_QUOTED_OR_SPACE = re.compile(r"""('(?:[^']|'')*'|"(?:[^"]|"")*")|\s+""")


class Statements:
    """The statements of one ``.sql`` file, with the schema's name in its place.

    A file holds blocks that start with ``-- name: <name>``. The comment lines that follow
    say what the statement promises and which index carries it; they are not sent. A block
    that starts with ``-- part: <name>`` is no statement: those behind it have its text where
    they say ``{<name>}``. ``{schema}`` stands for the schema's quoted name, and operators become
    those of ``pg_catalog``. Values are parameters, except for numbers that decide about the
    plan: see `variant`.

    Args:
        package: The package whose folder holds the file, as a module's ``__package__`` names it.
        file: The file's name.
        schema: The schema's name, unquoted.
    """

    def __init__(self, package: str | None, file: str, schema: str) -> None:
        self._origin = f"{package}/{file}"
        # A percent sign would begin a parameter.
        self._schema = identifier(schema.replace("%", "%%"))
        self._blocks = {
            name: with_clock_of(schema, block) for name, block in _blocks(package, file).items()
        }
        self._queries: dict[tuple[str, int | None], bytes] = {}

    def __getitem__(self, name: str) -> bytes:
        """Return the statement called *name*."""
        return self._render(name, None)

    def variant(self, name: str, limit: int) -> bytes:
        """Return the statement called *name* with *limit* written into it.

        A limit that is a parameter makes the server plan the statement anew each time:
        for all it knows, a generic plan might have to return a tenth of the table. With
        the number in its place the plan is made once for a prepared statement. Unusual
        numbers stay parameters, so that the prepared statements stay few.

        Args:
            name: A statement with ``{limit}`` in it.
            limit: The number; also given as the parameter ``limit``.
        """
        return self._render(name, limit if limit in _USUAL_LIMITS else 0)

    def with_numbers(self, name: str, numbers: Mapping[str, float | None]) -> bytes:
        """Return the statement called *name* with numbers written into it; not kept here.

        For a few sets of numbers that come again and again: each is a statement of its own to
        the server, and has fewer parameters to send, to read and to compute with.

        Args:
            name: The statement.
            numbers: The values of parameters; ``None``: ``NULL``.
        """
        written = {key: sql.Literal(number).as_bytes(None) for key, number in numbers.items()}

        def write(match: re.Match[bytes]) -> bytes:
            return written.get((match[1] or b"").decode("ascii"), match[0])

        return _PARAMETER.sub(write, self[name])

    def __iter__(self) -> Iterator[str]:
        """Iterate over the names of the statements."""
        return iter(tuple(self._blocks))

    def _render(self, name: str, limit: int | None) -> bytes:
        query = self._queries.get((name, limit))
        if query is None:
            if name not in self._blocks:
                msg = f"{self._origin} has no statement {name!r}"
                raise LookupError(msg)
            written = sql.Literal(limit) if limit else sql.SQL("%(limit)s")
            query = (
                sql.SQL(self._blocks[name])  # pyright: ignore[reportArgumentType] - from a file
                .format(schema=self._schema, limit=written)
                .as_bytes(None)
            )
            self._queries[name, limit] = query
        return query


_USUAL_LIMITS = frozenset(
    (*range(1, 17), 20, 24, 25, 32, 48, 50, 64, 96, 100, 128, 192, 200, 256, 384, 500, 512, 1000)
)


@cache
def _blocks(package: str | None, file: str) -> dict[str, str]:
    text = (files(package or "") / file).read_text(encoding="utf-8")
    pieces = _TITLE.split(text)
    parts: dict[str, str] = {}
    statements: dict[str, str] = {}
    for kind, name, body in zip(pieces[1::3], pieces[2::3], pieces[3::3], strict=True):
        plain = _COMMENT.sub("", body).strip().rstrip(";")
        whole = _PLACE.sub(lambda place: parts.get(place[1], place[0]), plain)
        if kind == "part":
            parts[name] = whole
        else:
            statements[name] = _on_one_line(qualify(whole))
    return statements


def _on_one_line(statement: str) -> str:
    """Take the indentation out: psycopg parses what is longer than 4,096 bytes each time."""
    return _QUOTED_OR_SPACE.sub(lambda match: match[1] or " ", statement)
