"""The memory engine's own reader of ``@every <n><unit>``: one character after the other."""

from __future__ import annotations

from datetime import timedelta
from typing import Final

from alkstore.errors import InvalidSpec

LONGEST: Final = timedelta(days=36_500)
"""The longest interval."""

_WORD = "@every"
_UNITS = {
    "s": timedelta(seconds=1),
    "m": timedelta(minutes=1),
    "h": timedelta(hours=1),
    "d": timedelta(days=1),
}
_FORM = (
    "'@every <n><unit>', n a whole number of at least 1, the unit one of s, m, h, d, "
    f"and no more than {LONGEST.days} days in all"
)
_SHOWN = 60


def read_every(spec: object) -> timedelta:
    """Return the interval that *spec* says (section 7 of the contract).

    Raises:
        InvalidSpec: It is not a ``str``, not in the grammar, zero, or longer than
            `LONGEST`.
    """
    if not isinstance(spec, str):
        msg = f"invalid spec: a str is needed, {type(spec).__name__} was given; allowed is {_FORM}"
        raise InvalidSpec(msg)
    text = str.__str__(spec).strip(" \t\r\n")
    if not text.startswith(_WORD):
        raise _refusal(spec, "it does not begin with '@every'")
    rest = text[len(_WORD) :]
    count_and_unit = rest.lstrip(" \t")
    if count_and_unit == rest:
        raise _refusal(spec, "a space is missing after '@every'")
    unit = _UNITS.get(count_and_unit[-1:])
    if unit is None:
        raise _refusal(spec, "it does not end with a unit")
    return _times(spec, count_and_unit[:-1], unit)


def _times(spec: str, digits: str, unit: timedelta) -> timedelta:
    if not digits:
        raise _refusal(spec, "the number is missing")
    most = LONGEST // unit
    count = 0
    for digit in digits:
        if digit not in "0123456789":
            raise _refusal(spec, "there is something other than ASCII digits before the unit")
        # Past the limit the value does not matter any more, and must not grow for ever.
        count = min(count * 10 + ord(digit) - ord("0"), most + 1)
    if count == 0:
        raise _refusal(spec, "the interval is zero")
    if count > most:
        raise _refusal(spec, f"the interval is longer than {LONGEST.days} days")
    return count * unit


def _refusal(spec: str, reason: str) -> InvalidSpec:
    shown = ascii(spec if len(spec) <= _SHOWN else spec[:_SHOWN] + "...")
    return InvalidSpec(f"invalid spec {shown}: {reason}; allowed is {_FORM}")
