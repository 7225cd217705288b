"""The memory engine's own reader of specs."""

from __future__ import annotations

from datetime import timedelta

import pytest

from alkstore import InvalidSpec
from alkstore.memory.every import LONGEST, read_every


@pytest.mark.parametrize(
    ("spec", "interval"),
    [
        ("@every 1s", timedelta(seconds=1)),
        (" \t\r\n@every \t 007m\n", timedelta(minutes=7)),
        ("@every 24h", timedelta(days=1)),
        ("@every 36500d", LONGEST),
        ("@every " + "0" * 100_000 + "2d", timedelta(days=2)),
    ],
)
def test_what_the_grammar_derives_is_read(spec: str, interval: timedelta) -> None:
    assert read_every(spec) == interval


@pytest.mark.parametrize(
    ("spec", "why"),
    [
        (None, "a str is needed, NoneType was given"),
        ("@hourly", "does not begin with '@every'"),
        ("@every1s", "a space is missing"),
        ("@every", "a space is missing"),
        ("@every\n1s", "a space is missing"),
        ("@every 5", "does not end with a unit"),
        ("@every 5S", "does not end with a unit"),
        ("@every s", "the number is missing"),
        ("@every 1m1s", "other than ASCII digits"),
        ("@every +1s", "other than ASCII digits"),
        ("@every \u0661s", "other than ASCII digits"),
        ("@every 000s", "the interval is zero"),
        ("@every 36501d", "longer than 36500 days"),
        ("@every " + "9" * 100_000 + "s", "longer than 36500 days"),
    ],
)
def test_what_it_does_not_derive_is_refused_with_the_reason(spec: object, why: str) -> None:
    with pytest.raises(InvalidSpec, match=why) as refusal:
        read_every(spec)
    message = str(refusal.value)
    assert len(message) < 300
    for allowed in ("'@every <n><unit>'", "at least 1", "s, m, h, d", "no more than 36500 days"):
        assert allowed in message
