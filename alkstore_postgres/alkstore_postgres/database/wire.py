"""How a statement goes over the wire: numbered parameters, and a name when it is prepared."""

from __future__ import annotations

import hashlib
import re
from functools import lru_cache

from psycopg.adapt import PyFormat

_PLACEHOLDER = re.compile(rb"%(?:\((?P<name>\w+)\)s|%)")

Key = tuple[bytes, tuple[int, ...]]
"""A statement's text and its parameters' types: what a prepared statement consists of."""


def name_of(key: Key) -> bytes:
    """Return a name that means this statement with these types of parameters, everywhere.

    Behind a pooler in transaction mode, with preparing left on against all advice, a number
    would be the name of somebody else's statement, which would run silently. PostgreSQL
    keeps 63 bytes of a name.
    """
    text, types = key
    digest = hashlib.blake2b(b"%b\0%b" % (text, repr(types).encode()), digest_size=20)
    return b"_alkstore_" + digest.hexdigest().encode()


@lru_cache(maxsize=1024)
def numbered(query: bytes) -> tuple[bytes, tuple[str, ...], tuple[PyFormat, ...]]:
    """Return *query* with ``$1`` for ``%(name)s``, the names in order, and their formats."""
    names: dict[str, bytes] = {}

    def number(match: re.Match[bytes]) -> bytes:
        name = match["name"]
        if name is None:
            return b"%"
        return names.setdefault(name.decode("ascii"), b"$%d" % (len(names) + 1))

    text = _PLACEHOLDER.sub(number, query)
    return text, tuple(names), (PyFormat.AUTO,) * len(names)
