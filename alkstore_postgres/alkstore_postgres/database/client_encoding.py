"""The client encoding of a connection, and what is independent of it.

Names may hold any character, and the server turns every text that comes or goes into the
client encoding, where some have no place: an error, or another character. So the engine's own
connections are opened with UTF-8, a pool's connection in another encoding is refused at the
check-out, and what goes over an application's own connection is written in ASCII.
"""

from __future__ import annotations

from typing import Any

import psycopg
from psycopg import sql

from alkstore.errors import InvalidConnection

_UTF8 = frozenset({b"UTF8", b"UNICODE"})


def is_utf8(connection: psycopg.Connection[Any]) -> bool:
    """Return whether texts go over *connection* in UTF-8; no round trip.

    A pooler that does not tell the encoding is taken at its word: psycopg writes UTF-8 then.
    """
    name = connection.pgconn.parameter_status(b"client_encoding")
    return not name or name.replace(b"-", b"").upper() in _UTF8


def require_utf8(connection: psycopg.Connection[Any]) -> None:
    """Refuse a connection of a pool that has another encoding.

    Raises:
        InvalidConnection: It has; nothing was sent on it.
    """
    if not is_utf8(connection):
        given = connection.pgconn.parameter_status(b"client_encoding") or b""
        msg = (
            f"the pool's connections have the client encoding {given.decode('ascii', 'replace')}, "
            "in which names and errors cannot be written or read; only UTF8 is allowed: connect "
            "with client_encoding=UTF8"
        )
        raise InvalidConnection(msg)


def identifier(name: str) -> sql.Composable:
    """Return *name* as a quoted identifier that is ASCII, whatever it holds.

    Args:
        name: The name, unquoted.
    """
    if name.isascii():
        return sql.Identifier(name)
    # The backslash begins a character's number here, and quotes are doubled as ever.
    escaped = name.replace("\\", "\\\\").replace('"', '""')
    written = "".join(one if one.isascii() else f"\\+{ord(one):06x}" for one in escaped)
    return sql.SQL(f'U&"{written}"')  # pyright: ignore[reportArgumentType] - quoted above
