"""The grammar of a schedule's spec: ``@every <n><unit>`` and nothing else."""

from __future__ import annotations

import re

from alkstore.errors import InvalidSpec

MAX_INTERVAL_DAYS = 36_500
"""The longest interval, in days."""

_SECONDS = {"s": 1, "m": 60, "h": 3_600, "d": 86_400}
_MAX_SECONDS = MAX_INTERVAL_DAYS * _SECONDS["d"]
_MAX_DIGITS = len(str(_MAX_SECONDS))
_BLANK = r"[ \t\r\n]*"
_GRAMMAR = re.compile(rf"{_BLANK}@every[ \t]+([0-9]+)([smhd]){_BLANK}")
_ALLOWED = (
    "allowed is '@every <n><unit>' with one whole number of at least 1 and one unit of s, m, h, d, "
    f"at most {MAX_INTERVAL_DAYS} days, such as '@every 90s'"
)
_SHOWN = 60


def parse_every(spec: object) -> int:
    """Return the interval that *spec* says, in seconds.

    The word ``@every``, one or more spaces or tabs, ASCII digits, one of ``s m h d``;
    spaces, tabs and line ends around the whole are ignored (section 7 of the contract).

    Args:
        spec: What the caller gave, or what the row holds.

    Returns:
        At least 1, at most 36,500 days.

    Raises:
        InvalidSpec: It is not a ``str``, not in the grammar, or out of range.
    """
    if not isinstance(spec, str):
        msg = f"invalid spec: a str is needed, {type(spec).__name__} was given; {_ALLOWED}"
        raise InvalidSpec(msg)
    match = _GRAMMAR.fullmatch(spec)
    if match is None:
        raise InvalidSpec(f"invalid spec {_shown(spec)}: {_ALLOWED}")
    digits = match[1].lstrip("0")
    # The length is compared first: Python refuses to convert thousands of digits.
    seconds = int(digits or "0") * _SECONDS[match[2]] if len(digits) <= _MAX_DIGITS else None
    if seconds == 0:
        raise InvalidSpec(f"invalid spec {_shown(spec)}: the interval is zero; {_ALLOWED}")
    if seconds is None or seconds > _MAX_SECONDS:
        raise InvalidSpec(f"invalid spec {_shown(spec)}: the interval is too long; {_ALLOWED}")
    return seconds


def _shown(spec: str) -> str:
    """Return *spec* quoted, escaped to ASCII and cut short, fit for any log."""
    return ascii(spec if len(spec) <= _SHOWN else spec[:_SHOWN] + "...")
