"""The default codec (contract section 3, field cases B92 and B93): what it takes, and what not."""

from __future__ import annotations

import copy
import enum
import json
import math
import pickle
import sys
from collections import OrderedDict
from collections.abc import Callable
from datetime import datetime, timezone
from decimal import Decimal
from typing import Any, NamedTuple

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from alkstore import DecodeError, EncodeError, JsonCodec
from alkstore.codec import MAX_JSON_DEPTH, decode_payload

CODEC = JsonCodec()
SURROGATES = ["\ud800", "\udbff", "\udc00", "\udfff"]
SECRET = "hunter2"

TEXTS = st.text(st.characters(exclude_categories=["Cs"]))
SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.integers(2**63 - 2, 2**70),
    st.floats(allow_nan=False, allow_infinity=False),
    TEXTS,
)
JSON_VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner) | st.dictionaries(TEXTS, inner),
    max_leaves=30,
)


def exact(value: Any) -> Any:
    """Return what only an identical JSON value equals: types, order of keys, sign of zero."""
    if isinstance(value, dict):
        return ("dict", [(key, exact(child)) for key, child in value.items()])
    if isinstance(value, list):
        return ("list", [exact(child) for child in value])
    return (type(value).__name__, repr(value))


def in_list(inner: Any) -> Any:
    return [inner]


def in_tuple(inner: Any) -> Any:
    return (inner,)


def in_object(inner: Any) -> Any:
    return {"a": inner}


def nested(levels: int, wrap: Callable[[Any], Any] = in_list) -> Any:
    value: Any = None
    for _ in range(levels):
        value = wrap(value)
    return value


def refusal(value: Any) -> str:
    with pytest.raises(EncodeError) as refused:
        CODEC.encode(value)
    message = str(refused.value)
    assert len(message) < 400
    return message


# What survives


@given(JSON_VALUES)
@example("\0")
@example({"\0": ["a\0b", {"": "\0"}]})
@example(10**400)
@example(-(10**400))
@example(2**63 + 1)
@example(-0.0)
@example(5e-324)
@example(sys.float_info.max)
@example(0.1 + 0.2)
@example(['\u2028\u2029\ufeff\uffff\U0010ffff\x7f\x1b"\\/'])
@example({"b": 1, "a": 2, "c": {"z": 1, "y": 2}})
@example({"True": 1, "true": 2, "None": 3, "1": 4})
@example([True, 1, 1.0, "1", None, "", [], {}])
def test_every_json_value_comes_back_exactly(value: Any) -> None:
    assert exact(CODEC.decode(CODEC.encode(value))) == exact(value)


@given(JSON_VALUES)
def test_the_bytes_are_compact_json_in_utf8_for_any_reader(value: Any) -> None:
    raw = CODEC.encode(value)
    assert type(raw) is bytes
    assert exact(json.loads(raw.decode("utf-8"))) == exact(value)
    assert raw == CODEC.encode(CODEC.decode(raw))


def test_nothing_is_written_between_the_parts_and_text_stays_text() -> None:
    assert CODEC.encode({"a": [1, 2], "b": "\u00e9"}) == '{"a":[1,2],"b":"\u00e9"}'.encode()


class Colour(enum.IntEnum):
    RED = 1


class Mode(str, enum.Enum):
    FAST = "fast"


class Point(NamedTuple):
    x: int
    y: int


def test_subclasses_are_written_as_what_they_inherit_from() -> None:
    value = [(1, 2), Point(3, 4), Colour.RED, Mode.FAST, OrderedDict(b=1, a=2)]
    decoded = CODEC.decode(CODEC.encode(value))
    assert exact(decoded) == exact([[1, 2], [3, 4], 1, "fast", {"b": 1, "a": 2}])


@pytest.mark.parametrize("wrap", [in_list, in_object, in_tuple])
def test_nesting_is_taken_to_the_limit_and_not_a_level_further(wrap: Callable[[Any], Any]) -> None:
    deepest = nested(MAX_JSON_DEPTH, wrap)
    assert CODEC.encode(CODEC.decode(CODEC.encode(deepest))) == CODEC.encode(deepest)
    for levels in (MAX_JSON_DEPTH + 1, 2_000, 200_000):
        message = refusal(nested(levels, wrap))
        assert f"more than {MAX_JSON_DEPTH} levels" in message


def test_the_limit_counts_levels_and_not_parts() -> None:
    wide: list[Any] = [[[]] * 3] * (MAX_JSON_DEPTH * 2)
    assert CODEC.decode(CODEC.encode(wide)) == wide
    beside = [nested(MAX_JSON_DEPTH - 1), {"a": nested(MAX_JSON_DEPTH - 2)}]
    assert CODEC.decode(CODEC.encode(beside)) is not None


def test_one_value_in_two_places_is_no_circle() -> None:
    shared = {"a": [1]}
    assert CODEC.decode(CODEC.encode([shared, shared, {"b": shared}])) == [
        shared,
        shared,
        {"b": shared},
    ]


# What is refused

UNENCODABLE: list[tuple[Any, str]] = [
    (math.nan, "NaN or an infinity"),
    (math.inf, "NaN or an infinity"),
    (-math.inf, "NaN or an infinity"),
    (float("1e309"), "NaN or an infinity"),
    *((surrogate, "lone surrogate") for surrogate in SURROGATES),
    ("text \ud83d\ude00 in halves", "lone surrogate"),
    (10**5_000, "too many digits"),
    (Decimal(1), "type Decimal"),
    (SECRET.encode(), "type bytes"),
    (bytearray(SECRET.encode()), "type bytearray"),
    (datetime(2026, 1, 1, tzinfo=timezone.utc), "type datetime"),
    ({1, 2}, "type set"),
    (1j, "type complex"),
    (object(), "type object"),
    (len, "type builtin_function_or_method"),
    (iter([SECRET]), "type list_iterator"),
    ({1: SECRET}, "key of type int"),
    ({None: SECRET}, "key of type NoneType"),
    ({True: SECRET}, "key of type bool"),
    ({1.5: SECRET}, "key of type float"),
    ({math.nan: SECRET}, "key of type float"),
    ({(1, 2): SECRET}, "key of type tuple"),
    ({b"a": SECRET}, "key of type bytes"),
    ({"a": 1, 2: SECRET}, "key of type int"),
    ({"\ud800": SECRET}, "lone surrogate in an object key"),
]
WRAPS: list[tuple[Callable[[Any], Any], str]] = [
    (lambda bad: bad, "$"),
    (lambda bad: [SECRET, bad], "$[1]"),
    (lambda bad: (bad, SECRET), "$[0]"),
    (lambda bad: {"first": SECRET, "items": [{}, [SECRET], {"price": bad}]}, "$.items[2].price"),
    (lambda bad: {"ada@example.org": SECRET, SECRET + "!": {"x": bad}}, "$[key 1].x"),
]


@pytest.mark.parametrize(("wrap", "path"), WRAPS, ids=[path for _, path in WRAPS])
@pytest.mark.parametrize("number", range(len(UNENCODABLE)))
def test_what_json_cannot_carry_is_refused_with_the_path_and_without_the_value(
    number: int, wrap: Callable[[Any], Any], path: str
) -> None:
    bad, complaint = UNENCODABLE[number]
    message = refusal(wrap(bad))
    assert complaint in message
    assert message.endswith(f" at {path}")
    assert SECRET not in message
    assert "example.org" not in message
    assert message.isascii()


@given(JSON_VALUES, st.sampled_from([math.nan, *SURROGATES, object(), {3: 1}]), JSON_VALUES)
def test_one_bad_part_anywhere_refuses_the_whole(before: Any, bad: Any, after: Any) -> None:
    for value in ([before, bad, after], {"a": before, "b": bad, "c": after}):
        assert refusal(value).endswith((" at $[1]", " at $.b"))


def test_a_value_that_contains_itself_is_refused() -> None:
    circle: list[Any] = [1]
    circle.append({"again": circle})
    assert refusal(circle).endswith("contains itself at $[1].again")
    ring: dict[str, Any] = {}
    ring["me"] = ring
    assert refusal({"x": [ring]}).endswith("contains itself at $.x[0].me")


def test_the_cause_shows_no_value_either() -> None:
    for bad in ([SECRET, math.nan], {"a": SECRET, "b": object()}, [SECRET, "\ud800"]):
        with pytest.raises(EncodeError) as refused:
            CODEC.encode(bad)
        assert SECRET not in str(refused.value.__cause__)


# What does not decode


@given(st.binary())
@example(b"")
@example(b"{")
@example(b"NaN")
@example(b"[Infinity,-Infinity]")
@example(b'"\xff"')
@example(b'\xef\xbb\xbf"a"')
@example(b"1 2")
@example(b"[" * 200_000)
@example(b'{"a":' * 200_000)
@example(b"1" * 10_000)
def test_any_bytes_decode_or_are_a_decode_error(raw: bytes) -> None:
    try:
        value = decode_payload(CODEC, raw)
    except DecodeError:
        return
    assert exact(value) == exact(json.loads(raw))


@pytest.mark.parametrize(
    "raw", [b"NaN", b"[1,Infinity]", b"-Infinity", b"", b"\xff", b'{"a":1,}', b"'a'"]
)
def test_damaged_bytes_are_a_decode_error(raw: bytes) -> None:
    with pytest.raises(DecodeError):
        CODEC.decode(raw)


@given(st.text(), st.sampled_from(['["%s', '{"k": "%s"', '"%s" trailing', "%s"]))
def test_a_decode_error_shows_nothing_of_the_payload(text: str, frame: str) -> None:
    secret = json.dumps(SECRET + text)[1:-1]
    with pytest.raises(DecodeError) as refused:
        CODEC.decode((frame % secret).encode())
    assert SECRET not in str(refused.value)
    assert SECRET not in str(refused.value.__cause__)


# The codec itself


def test_the_json_codec_has_no_state_to_copy() -> None:
    for codec in (copy.deepcopy(CODEC), pickle.loads(pickle.dumps(CODEC))):  # noqa: S301
        assert codec.decode(codec.encode([1])) == [1]
