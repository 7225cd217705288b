"""The text of a failure, always storable."""

from __future__ import annotations

MAX_ERROR_CHARACTERS = 20_000
"""How much of an error's text is kept."""


def error_text(error: object) -> str:
    """Return the text of *error* in a form that every store can keep.

    Recording a failure must never fail: NUL and lone surrogates are escaped, long texts
    are cut, an error without a text gives its class name, and one whose ``str()`` raises
    does too.

    Args:
        error: An exception, or any object; usually what a handler raised.
    """
    try:
        # The text of a text is itself: `str()` of a member of a str enum would be its name.
        text = str.__str__(error) if isinstance(error, str) else str(error)
    except Exception:  # noqa: BLE001 - whatever a foreign __str__ raises
        text = ""
    if not text:
        text = type(error).__name__
    if len(text) > MAX_ERROR_CHARACTERS:
        text = text[: MAX_ERROR_CHARACTERS - 3] + "..."
    return text.encode("utf-8", "backslashreplace").decode("utf-8").replace("\0", "\\x00")
