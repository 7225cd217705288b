"""The naming rule, the reserved prefix, and the names derived from them.

A mechanism's name (queue, schedule, lock, outbox, stream, channel) is a non-empty ``str``
of at most `MAX_NAME_BYTES` bytes of UTF-8, without control characters or lone surrogates.
Within these limits any text works: spaces, quotes, semicolons, slashes, emoji.
"""

from __future__ import annotations

import unicodedata

from alkstore.errors import InvalidName, ReservedName

MAX_NAME_BYTES = 200
"""The longest name, in bytes of UTF-8."""

RESERVED_PREFIX = "__alkstore_"
"""Names that start like this belong to alkstore itself."""

SCHEDULER_LOCK = RESERVED_PREFIX + "scheduler"
"""The lock whose holder fires schedules, and the channel that tells it of changes."""

_OUTBOX_QUEUE_PREFIX = RESERVED_PREFIX + "outbox:"
_SHOWN = 60


def check_name(name: object, kind: str) -> str:
    """Return *name* when it obeys the naming rule.

    Args:
        name: What the caller gave.
        kind: What it names ("queue", "lock", ...), for the error message.

    Raises:
        InvalidName: It is not a ``str``, is empty, is longer than 200 bytes of UTF-8, or
            holds a control character or a lone surrogate.
        ReservedName: It starts with ``__alkstore_``.
    """
    if not isinstance(name, str):
        given = type(name).__name__
        msg = f"invalid {kind} name: a str is needed, {given} was given"
        raise InvalidName(msg)
    # A subclass of str may carry behaviour of its own: the plain text counts. `str(name)` would
    # ask it, and give "Queues.MAIL" for a member of `class Queues(str, Enum)`.
    name = str.__str__(name)
    if not name:
        msg = f"invalid {kind} name: it is empty"
        raise InvalidName(msg)
    # Each character takes at least one byte: a huge text is refused before it is encoded.
    if len(name) > MAX_NAME_BYTES or len(name.encode("utf-8", "surrogatepass")) > MAX_NAME_BYTES:
        msg = (
            f"invalid {kind} name {_shown(name)}: at most {MAX_NAME_BYTES} bytes of UTF-8 "
            "are allowed"
        )
        raise InvalidName(msg)
    # What is forbidden is not printable: most names need no look at each character.
    for character in "" if name.isprintable() else name:
        category = unicodedata.category(character)
        if category in ("Cc", "Cs"):
            what = "control character" if category == "Cc" else "lone surrogate"
            msg = f"invalid {kind} name {_shown(name)}: {what} U+{ord(character):04X}"
            raise InvalidName(msg)
    if name.startswith(RESERVED_PREFIX):
        msg = f"reserved {kind} name {_shown(name)}: {RESERVED_PREFIX!r} is kept for alkstore"
        raise ReservedName(msg)
    return name


def outbox_queue(outbox: object) -> str:
    """Return the name of the queue that backs the outbox *outbox*.

    Raises:
        InvalidName: *outbox* breaks the naming rule (`ReservedName` when reserved).
    """
    return _OUTBOX_QUEUE_PREFIX + check_name(outbox, "outbox")


def _shown(name: str) -> str:
    """Return *name* quoted, escaped to ASCII and cut short, fit for any log."""
    return ascii(name if len(name) <= _SHOWN else name[:_SHOWN] + "...")
