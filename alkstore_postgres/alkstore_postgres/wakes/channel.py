"""The notification channel of a schema."""

from __future__ import annotations

import hashlib

_DIGITS = 32


def wake_channel(schema: str) -> str:
    """Return the PostgreSQL channel that carries every wake of *schema*.

    ``alkstore_`` and the first 32 hexadecimal digits of the SHA-256 of the schema's name
    (`docs/decisions/0003-one-notify-channel-per-schema.md`): an identifier of 41 lower-case
    ASCII characters, whatever the schema is called. The payload of each notification is
    the name of a mechanism.

    Args:
        schema: The schema's name, unquoted.
    """
    return "alkstore_" + hashlib.sha256(schema.encode()).hexdigest()[:_DIGITS]
