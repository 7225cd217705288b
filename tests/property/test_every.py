"""The grammar of a spec, pinned in both directions (contract section 7)."""

from __future__ import annotations

import re

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from alkstore import InvalidSpec
from alkstore_postgres.scheduler.every import parse_every

SECONDS = {"s": 1, "m": 60, "h": 3_600, "d": 86_400}
LONGEST = 36_500 * 86_400
BLANKS = st.text(" \t\r\n", max_size=4)
GAPS = st.text(" \t", min_size=1, max_size=4)
ZEROS = st.integers(0, 6_000).map("0".__mul__)


@st.composite
def derived(draw: st.DrawFn) -> tuple[str, int]:
    """A text that the grammar derives, and the seconds that it says."""
    unit = draw(st.sampled_from(sorted(SECONDS)))
    number = draw(st.integers(1, LONGEST // SECONDS[unit]))
    zeros = draw(st.one_of(st.just(""), st.text("0", max_size=3), ZEROS))
    parts = [draw(BLANKS), "@every", draw(GAPS), zeros, str(number), unit, draw(BLANKS)]
    return "".join(parts), number * SECONDS[unit]


@given(derived())
@example(("@every 36500d", LONGEST))
@example(("@every 3153600000s", LONGEST))
@example(("\r\n @every\t \t0001s\n\t", 1))
def test_everything_the_grammar_derives_is_accepted_with_its_seconds(case: tuple[str, int]) -> None:
    spec, seconds = case
    assert parse_every(spec) == seconds


def by_the_book(spec: str) -> bool:
    """The grammar read a second time, character by character."""
    rest = spec.strip(" \t\r\n")
    if not rest.startswith("@every"):
        return False
    rest = rest[len("@every") :]
    number = rest.lstrip(" \t")
    if number == rest or not number or number[-1] not in SECONDS:
        return False
    digits = number[:-1]
    if not digits or set(digits) - set("0123456789"):
        return False
    return 1 <= int(digits[-4_000:]) * SECONDS[number[-1]] <= LONGEST


ODD = st.sampled_from(
    [
        "\x0b",
        "\x0c",
        "\x00",
        "\x85",
        "\u2028",
        "\xa0",
        "\u3000",
        "\u0661",
        "\u00b2",
        "+",
        "-",
        ".",
        "e",
    ]
)


@st.composite
def mutated(draw: st.DrawFn) -> str:
    """A text one step away from the grammar."""
    spec, _ = draw(derived().filter(lambda case: len(case[0]) < 40))
    at = draw(st.integers(0, len(spec)))
    kind = draw(st.sampled_from(["insert", "delete", "replace", "upper", "double", "swap"]))
    piece = draw(st.one_of(st.characters(), ODD, st.sampled_from("0123456789smhd @every")))
    if kind == "insert":
        return spec[:at] + piece + spec[at:]
    if kind == "delete":
        return spec[:at] + spec[at + 1 :]
    if kind == "replace":
        return spec[:at] + piece + spec[at + 1 :]
    if kind == "upper":
        return spec[:at] + spec[at:].upper()
    if kind == "double":
        return spec[:at] + spec[at:] * 2
    return spec[at:] + spec[:at]


@given(mutated())
def test_a_step_off_the_grammar_is_accepted_only_when_the_grammar_derives_it(spec: str) -> None:
    if by_the_book(spec):
        assert parse_every(spec) >= 1
        return
    with pytest.raises(InvalidSpec):
        parse_every(spec)


@given(st.one_of(st.text(), st.from_regex(r"\A@every.{0,6}\Z")))
def test_any_other_text_is_refused(spec: str) -> None:
    assume(not by_the_book(spec))
    with pytest.raises(InvalidSpec):
        parse_every(spec)


@given(st.integers(LONGEST + 1, 10**40), st.sampled_from(sorted(SECONDS)))
@example(10**5_000, "s")
def test_an_interval_above_the_limit_is_refused(number: int, unit: str) -> None:
    digits = "1" + "0" * 5_000 if number == 10**5_000 else str(number)
    with pytest.raises(InvalidSpec, match="too long"):
        parse_every(f"@every {digits}{unit}")


@given(st.one_of(st.none(), st.integers(), st.floats(), st.binary(), st.lists(st.text())))
def test_what_is_no_text_is_refused(spec: object) -> None:
    with pytest.raises(InvalidSpec, match=r"a str is needed.*; allowed is '@every <n><unit>'"):
        parse_every(spec)


@pytest.mark.parametrize(
    "spec",
    [
        "", " ", "@", "@every", "@every ", "@every s", "@every 1", "@every1s", "every 1s", "1s",
        "* * * * *", "*/5 * * * *", "0 0 * * * *", "@daily", "@hourly", "@midnight", "@reboot",
        "@every 1.5h", "@every 1,5h", "@every 1h30m", "@every 1h 30m", "@every -1s", "@every +1s",
        "@every 0s", "@every 000d", "@EVERY 1s", "@Every 1s", "@every 1S", "@every 1H",
        "@every \u0661s", "@every \uff11s", "@every \u00b2s", "@every 1 s", "@every 1w",
        "@every 1y",
        "@every 1ms", "@every 1us", "@every 1min", "@every 1s;", "@every 1s --", "@every 1s\x00",
        "\ufeff@every 1s", "@every\u00a01s", "@every\n1s", "@every 1s\x0b", "@every 1_0s",
        "@every 0x1s",
        "@every 1e3s", "@every @every 1s", "@every 36501d", "@every 999999999h", "TZ=UTC @every 1s",
        "banana", "@every \ud800s",
    ],
)  # fmt: skip
def test_refusals_say_what_is_allowed(spec: str) -> None:
    with pytest.raises(InvalidSpec, match=re.escape("allowed is '@every <n><unit>'")) as refusal:
        parse_every(spec)
    assert isinstance(refusal.value, ValueError)
    assert str(refusal.value).isascii()
    assert len(str(refusal.value)) < 400


def test_a_huge_text_is_refused_without_showing_it() -> None:
    with pytest.raises(InvalidSpec) as refusal:
        parse_every("@every " + "9" * 1_000_000 + "s")
    assert len(str(refusal.value)) < 400
