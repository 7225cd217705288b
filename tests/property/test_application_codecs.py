"""Codecs of the application, and the limit that any codec's bytes obey (contract section 3)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from alkstore import (
    DEFAULT_MAX_PAYLOAD_BYTES,
    Codec,
    DecodeError,
    EncodeError,
    JsonCodec,
    PayloadTooLarge,
)
from alkstore._typing import override
from alkstore.codec import decode_payload, encode_payload

CODEC = JsonCodec()
SECRET = "hunter2"


# Codecs of the application


class Scripted:
    """A codec that does what the test says."""

    def __init__(self, act: Callable[[], Any]) -> None:
        self._act = act

    def encode(self, _: Any, /) -> bytes:
        return self._act()  # type: ignore[no-any-return]

    def decode(self, _: bytes, /) -> Any:
        return self._act()


def raising(error: BaseException) -> Scripted:
    def act() -> Any:
        raise error

    return Scripted(act)


class Unprintable(Exception):
    @override
    def __str__(self) -> str:
        raise RuntimeError(SECRET)


FOREIGN_ERRORS = [
    ValueError(SECRET),
    TypeError(SECRET),
    KeyError(SECRET),
    OSError(5, SECRET),
    RecursionError(SECRET),
    MemoryError(),
    StopIteration(SECRET),
    UnicodeDecodeError("utf-8", SECRET.encode(), 0, 1, SECRET),
    Unprintable(),
    PayloadTooLarge(SECRET),
]


@pytest.mark.parametrize(
    "error", [*FOREIGN_ERRORS, DecodeError(SECRET)], ids=lambda error: type(error).__name__
)
def test_whatever_a_codec_raises_at_encoding_is_an_encode_error(error: Exception) -> None:
    with pytest.raises(EncodeError) as refused:
        encode_payload(raising(error), SECRET, 100)
    assert str(refused.value) == f"Scripted.encode failed: {type(error).__name__}"
    assert refused.value.__cause__ is error


@pytest.mark.parametrize(
    "error", [*FOREIGN_ERRORS, EncodeError(SECRET)], ids=lambda error: type(error).__name__
)
def test_whatever_a_codec_raises_at_decoding_is_a_decode_error(error: Exception) -> None:
    with pytest.raises(DecodeError) as refused:
        decode_payload(raising(error), SECRET.encode())
    assert str(refused.value) == f"Scripted.decode failed: {type(error).__name__}"
    assert refused.value.__cause__ is error


def test_a_codecs_own_refusal_is_passed_on() -> None:
    refused_encode, refused_decode = EncodeError("no key"), DecodeError("no key")
    with pytest.raises(EncodeError) as encode:
        encode_payload(raising(refused_encode), 1, 100)
    with pytest.raises(DecodeError) as decode:
        decode_payload(raising(refused_decode), b"1")
    assert (encode.value, decode.value) == (refused_encode, refused_decode)


@pytest.mark.parametrize("error", [KeyboardInterrupt(), SystemExit(3)], ids=["ctrl-c", "exit"])
def test_the_end_of_the_program_is_no_codec_error(error: BaseException) -> None:
    with pytest.raises(type(error)):
        encode_payload(raising(error), 1, 100)
    with pytest.raises(type(error)):
        decode_payload(raising(error), b"1")


@given(
    st.one_of(
        st.none(),
        st.text(),
        st.integers(),
        st.lists(st.integers(0, 255)),
        st.binary().map(bytearray),
        st.binary().map(lambda raw: memoryview(raw)),  # noqa: PLW0108 - mypy cannot type the class
    )
)
def test_a_codec_that_returns_no_bytes_is_refused(returned: object) -> None:
    with pytest.raises(
        EncodeError, match=f"must return bytes, it returned {type(returned).__name__}"
    ):
        encode_payload(Scripted(lambda: returned), 1, 100)


def test_a_codec_is_anything_with_the_two_methods() -> None:
    assert isinstance(CODEC, Codec)
    assert isinstance(Scripted(lambda: b""), Codec)
    assert not isinstance(object(), Codec)


# The limit


@given(st.integers(1, 3_000), st.integers(-2, 2))
def test_the_size_limit_is_exact(limit: int, over: int) -> None:
    raw = b"x" * (limit + over)
    codec = Scripted(lambda: raw)
    if over <= 0:
        assert encode_payload(codec, 1, limit) == raw
        return
    with pytest.raises(PayloadTooLarge) as refused:
        encode_payload(codec, 1, limit)
    assert str(len(raw)) in str(refused.value)
    assert str(limit) in str(refused.value)


def test_the_limit_is_a_mebibyte_of_bytes_and_not_of_characters() -> None:
    assert DEFAULT_MAX_PAYLOAD_BYTES == 1_048_576
    widest = "\u20ac" * ((DEFAULT_MAX_PAYLOAD_BYTES - 2) // 3)
    raw = encode_payload(CODEC, widest, DEFAULT_MAX_PAYLOAD_BYTES)
    assert len(raw) <= DEFAULT_MAX_PAYLOAD_BYTES
    with pytest.raises(PayloadTooLarge):
        encode_payload(CODEC, widest + "\u20ac", DEFAULT_MAX_PAYLOAD_BYTES)
