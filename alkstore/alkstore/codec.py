"""Codecs: how payloads become bytes and values again."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, NoReturn, Protocol, runtime_checkable

from alkstore.errors import CodecError, DecodeError, EncodeError, PayloadTooLarge

DEFAULT_MAX_PAYLOAD_BYTES = 1024 * 1024
"""The largest encoded payload of a store that sets no other limit (1 MiB)."""

MAX_JSON_DEPTH = 500
"""How deep arrays and objects may nest in a `JsonCodec` payload.

Half of CPython's default recursion limit: what was encoded in one place can be decoded in
another, below the frames of any ordinary application.
"""


@runtime_checkable
class Codec(Protocol):
    """Turns payloads into the bytes that are stored, and back.

    An engine stores the bytes as they are, so that a codec may compress or encrypt. A
    codec is called from many threads at once.
    """

    def encode(self, value: Any, /) -> bytes:
        """Return the bytes for *value*; raise `EncodeError` when it has none."""
        ...

    def decode(self, raw: bytes, /) -> Any:
        """Return the value of *raw*; raise `DecodeError` when it is damaged."""
        ...


class JsonCodec:
    """Compact UTF-8 JSON, the default codec.

    What JSON cannot carry without loss is refused: NaN, infinities, lone surrogates,
    object keys that are not strings, and types that JSON does not know. Tuples are
    written as arrays. Integers of any size that Python converts, NUL inside a string and
    nesting up to `MAX_JSON_DEPTH` survive a round trip. The order of keys is kept.
    """

    def __init__(self) -> None:
        self._encoder = json.JSONEncoder(
            ensure_ascii=False, allow_nan=False, separators=(",", ":"), check_circular=True
        )
        self._decoder = json.JSONDecoder(parse_constant=_refuse_constant)

    def encode(self, value: Any, /) -> bytes:
        """Return *value* as compact UTF-8 JSON.

        Raises:
            EncodeError: Something in it has no loss-free JSON form; the message names the
                path to it.
        """
        try:
            raw = self._encoder.encode(value).encode("utf-8")
        except (ValueError, TypeError, RecursionError) as error:
            raise EncodeError(self._explain(value, error)) from error
        _check_shape(value)
        return raw

    def decode(self, raw: bytes, /) -> Any:
        """Return the value of the JSON text *raw*.

        Raises:
            DecodeError: It is not JSON in UTF-8, or nests too deeply.
        """
        try:
            return self._decoder.decode(raw.decode("utf-8"))
        except UnicodeDecodeError as error:
            msg = f"the payload of {len(raw)} bytes is not UTF-8 (byte {error.start})"
            raise DecodeError(msg) from error
        except json.JSONDecodeError as error:
            # The driver's own text is kept, the document that it carries is not shown.
            msg = f"the payload of {len(raw)} bytes is not JSON: {error.msg} at {error.pos}"
            raise DecodeError(msg) from error
        except (ValueError, RecursionError) as error:
            msg = f"the payload of {len(raw)} bytes is not JSON that can be read here: {error}"
            raise DecodeError(msg) from error

    def _explain(self, value: Any, error: Exception) -> str:
        """Say why *value* was refused, and at which path, without showing it."""
        if isinstance(error, RecursionError) or "Circular reference" in str(error):
            return (
                "the payload cannot be encoded as JSON: it nests too deeply or contains itself "
                f"(at most {MAX_JSON_DEPTH} levels are allowed)"
            )
        path, culprit = "$", value
        while True:
            inner = next(
                ((step, child) for step, child in _children(culprit) if self._refuses(child)), None
            )
            if inner is None:
                return f"the payload cannot be encoded as JSON: {_complaint(culprit)} at {path}"
            path, culprit = path + inner[0], inner[1]

    def _refuses(self, value: Any) -> bool:
        try:
            self._encoder.encode(value).encode("utf-8")
        except (ValueError, TypeError, RecursionError):
            return True
        return False


def encode_payload(codec: Codec, value: Any, max_bytes: int) -> bytes:
    """Return *value* encoded by *codec*, once, at an entry point.

    Raises:
        EncodeError: The codec refused the value, failed, or returned something that is
            not ``bytes``.
        PayloadTooLarge: The bytes are more than *max_bytes*.
    """
    try:
        raw: object = codec.encode(value)
    except CodecError:
        raise
    except Exception as error:
        msg = f"{type(codec).__name__}.encode failed: {type(error).__name__}"
        raise EncodeError(msg) from error
    if not isinstance(raw, bytes):
        msg = f"{type(codec).__name__}.encode must return bytes, it returned {type(raw).__name__}"
        raise EncodeError(msg)
    if len(raw) > max_bytes:
        msg = f"the encoded payload has {len(raw)} bytes, at most {max_bytes} are allowed"
        raise PayloadTooLarge(msg)
    return raw


def decode_payload(codec: Codec, raw: bytes) -> Any:
    """Return the value of *raw*; any failure of *codec* becomes a `DecodeError`."""
    try:
        return codec.decode(raw)
    except DecodeError:
        raise
    except Exception as error:
        msg = f"{type(codec).__name__}.decode failed: {type(error).__name__}"
        raise DecodeError(msg) from error


def _refuse_constant(constant: str) -> NoReturn:
    msg = f"the constant {constant} is not JSON"
    raise ValueError(msg)


def _check_shape(value: Any) -> None:
    """Refuse keys that JSON would silently turn into strings, and too deep a nesting.

    It runs after the encoder has proved that *value* does not contain itself.
    """
    level, depth = [value], 0
    while level:
        depth += 1
        if depth > MAX_JSON_DEPTH + 1:
            msg = (
                "the payload cannot be encoded as JSON: it nests too deeply "
                f"(at most {MAX_JSON_DEPTH} levels are allowed)"
            )
            raise EncodeError(msg)
        inner: list[Any] = []
        for item in level:
            if isinstance(item, dict):
                for key in item:
                    if not isinstance(key, str):
                        msg = (
                            "the payload cannot be encoded as JSON without loss: an object key "
                            f"is {type(key).__name__}, only str is allowed"
                        )
                        raise EncodeError(msg)
                inner.extend(child for child in item.values() if isinstance(child, _CONTAINERS))
            elif isinstance(item, (list, tuple)):
                inner.extend(child for child in item if isinstance(child, _CONTAINERS))
        level = inner


_CONTAINERS = (dict, list, tuple)


def _children(value: Any) -> Iterator[tuple[str, Any]]:
    """Yield the path step and the value of each part of *value*, keys included."""
    if isinstance(value, dict):
        for number, (key, child) in enumerate(value.items()):
            yield f"[key {number}]", key
            yield f"[{ascii(key)[:40]}]", child
    elif isinstance(value, (list, tuple)):
        for number, child in enumerate(value):
            yield f"[{number}]", child


def _complaint(value: Any) -> str:
    """Say what is wrong with *value*, a part that the encoder refuses on its own."""
    if isinstance(value, float):
        return "NaN or an infinity"
    if isinstance(value, str):
        return "a lone surrogate in a string"
    if isinstance(value, int):
        return "an integer with too many digits"
    return f"a value of type {type(value).__name__}"
