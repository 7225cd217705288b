"""Codecs: how payloads become bytes and values again."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NoReturn, Protocol, runtime_checkable

from alkstore.errors import DecodeError, EncodeError, PayloadTooLarge

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
        """Return the bytes for a payload.

        Args:
            value: What the application gave.

        Raises:
            EncodeError: It has no encoding. Whatever else is raised becomes one.
        """
        ...

    def decode(self, raw: bytes, /) -> Any:
        """Return the payload of stored bytes.

        Args:
            raw: What `encode` gave, or what somebody wrote there by hand.

        Raises:
            DecodeError: They are damaged. Whatever else is raised becomes one.
        """
        ...


class JsonCodec:
    """Compact UTF-8 JSON, the default codec.

    What JSON cannot carry without loss is refused: NaN, infinities, lone surrogates,
    object keys that are not strings, and types that JSON does not know. Tuples are
    written as arrays, and instances of subclasses (an `IntEnum`, an `OrderedDict`) as what
    they inherit from. Integers of any size that Python converts, NUL inside a string and
    nesting up to `MAX_JSON_DEPTH` survive a round trip. The order of keys is kept.
    """

    def encode(self, value: Any, /) -> bytes:
        """Return *value* as compact UTF-8 JSON.

        Raises:
            EncodeError: Something in it has no loss-free JSON form; the message says what
                and at which path, and shows no value.
        """
        try:
            # An id is a usual payload, for which the encoder makes more than it writes.
            text = repr(value) if type(value) is int else _ENCODER.encode(value)
            raw = text.encode("utf-8")
        except (ValueError, TypeError, RecursionError) as error:
            raise EncodeError(_refusal(value)) from error
        if isinstance(value, _CONTAINERS) and not _has_json_shape(value):
            raise EncodeError(_refusal(value))
        return raw

    def decode(self, raw: bytes, /) -> Any:
        """Return the value of the JSON text *raw*.

        Raises:
            DecodeError: It is not JSON in UTF-8, or nests too deeply.
        """
        try:
            return _json_value(raw.decode("utf-8"))
        except UnicodeDecodeError as error:
            msg = f"the payload of {len(raw)} bytes is not UTF-8 (byte {error.start})"
            raise DecodeError(msg) from error
        except json.JSONDecodeError as error:
            # The parser's own text is kept, the document that it carries is not shown.
            msg = f"the payload of {len(raw)} bytes is not JSON: {error.msg} at {error.pos}"
            raise DecodeError(msg) from error
        except (ValueError, RecursionError) as error:
            msg = f"the payload of {len(raw)} bytes is not JSON that can be read here: {error}"
            raise DecodeError(msg) from error


def encode_payload(codec: Codec, value: Any, max_bytes: int) -> bytes:
    """Return *value* encoded by *codec*, once, at an entry point.

    Raises:
        EncodeError: The codec refused the value, failed, or returned something that is
            not ``bytes``.
        PayloadTooLarge: The bytes are more than *max_bytes*.
    """
    try:
        raw: object = codec.encode(value)
    except EncodeError:
        raise
    except Exception as error:
        msg = f"{type(codec).__name__}.encode failed: {type(error).__name__}"
        raise EncodeError(msg) from error
    if not isinstance(raw, bytes):
        msg = f"{type(codec).__name__}.encode must return bytes, it returned {type(raw).__name__}"
        raise EncodeError(msg)
    if type(raw) is not bytes:
        # A subclass may carry behaviour of its own: the plain bytes count.
        raw = bytes(memoryview(raw))
    if len(raw) > max_bytes:
        msg = f"the encoded payload has {len(raw)} bytes, at most {max_bytes} are allowed"
        raise PayloadTooLarge(msg)
    return raw


def encode_payloads(encode: Callable[[Any], bytes], values: Iterable[Any]) -> list[bytes]:
    """Return all *values* encoded, each by *encode*, which calls `encode_payload`.

    Raises:
        EncodeError: As `encode_payload`; the message says which one it was, counted from 0.
        PayloadTooLarge: As well.
    """
    raws: list[bytes] = []
    try:
        for value in values:
            raws.append(encode(value))  # noqa: PERF401 - an error tells how many came before
    except (EncodeError, PayloadTooLarge) as error:
        # The class may be the codec's own.
        error.args = (f"payloads[{len(raws)}]: {error}", *error.args[1:])
        raise
    return raws


def decode_payload(codec: Codec, raw: bytes) -> Any:
    """Return the value of *raw*; any failure of *codec* becomes a `DecodeError`."""
    try:
        return codec.decode(raw)
    except DecodeError:
        raise
    except Exception as error:
        msg = f"{type(codec).__name__}.decode failed: {type(error).__name__}"
        raise DecodeError(msg) from error


class Decoder:
    """Decodes payloads with a codec. A copy of it is itself, since a store has one codec.

    Args:
        codec: The codec.
    """

    __slots__ = ("_codec",)

    def __init__(self, codec: Codec) -> None:
        self._codec = codec

    def __call__(self, raw: bytes) -> Any:
        """Return the value of *raw*; see `decode_payload`."""
        return decode_payload(self._codec, raw)

    def __deepcopy__(self, memo: dict[int, Any]) -> Decoder:
        """Return itself: a codec may hold what cannot be copied, or should not be."""
        return self


def _refuse_constant(constant: str) -> NoReturn:
    msg = f"the constant {constant} is not JSON"
    raise ValueError(msg)


_ENCODER = json.JSONEncoder(
    ensure_ascii=False, allow_nan=False, separators=(",", ":"), check_circular=True
)
_DECODER = json.JSONDecoder(parse_constant=_refuse_constant)


def _json_value(text: str) -> Any:
    """Return the value of *text*, which most often is what the encoder gave: nothing but that."""
    try:
        value, end = _DECODER.raw_decode(text)
    except json.JSONDecodeError:
        value = end = None
    return value if end == len(text) else _DECODER.decode(text)


_CONTAINERS = (dict, list, tuple)


def _has_json_shape(value: Any) -> bool:
    """Whether all keys in a container are strings and the nesting is at most `MAX_JSON_DEPTH`.

    The encoder would silently turn other keys into strings. It runs after the encoder has
    proved that *value* does not contain itself.
    """
    level = [value]
    for _ in range(MAX_JSON_DEPTH):
        inner: list[Any] = []
        for container in level:
            children: Iterable[Any] = container
            if isinstance(container, dict):
                if not all(isinstance(key, str) for key in container):
                    return False
                children = container.values()
            inner.extend(child for child in children if isinstance(child, _CONTAINERS))
        level = inner
        if not level:
            return True
    return False


def _refusal(value: Any) -> str:
    """Say why *value* was refused, and at which path, without showing it.

    A walk without recursion: what it looks for may be the depth.
    """
    steps: list[str] = []
    holders: list[int] = []
    branches: list[Iterator[tuple[str, Any]]] = [iter([("$", value)])]
    while branches:
        step, part = next(branches[-1], ("", None))
        if not step:
            branches.pop()
            if holders:
                steps.pop()
                holders.pop()
            continue
        complaint = _complaint(part)
        if id(part) in holders:
            complaint = "something that contains itself"
        elif len(holders) == MAX_JSON_DEPTH and isinstance(part, _CONTAINERS):
            complaint = f"more than {MAX_JSON_DEPTH} levels of nesting"
        if complaint is not None:
            path = "".join(steps) + step
            shown = path if len(path) <= _SHOWN_PATH else path[:_SHOWN_PATH] + "..."
            return f"the payload cannot be encoded as JSON: {complaint} at {shown}"
        if isinstance(part, _CONTAINERS):
            steps.append(step)
            holders.append(id(part))
            branches.append(_children(part))
    return "the payload cannot be encoded as JSON: too little of the stack is left"


_SHOWN_PATH = 200
_SHOWN_KEY = 40


def _children(container: Any) -> Iterator[tuple[str, Any]]:
    """Yield the path step to each part of *container*, and the part.

    A key that looks like a field's name is shown; any other may be data: its place is.
    """
    if isinstance(container, dict):
        for number, (key, child) in enumerate(container.items()):
            is_name = key.isascii() and key.isidentifier() and len(key) <= _SHOWN_KEY
            yield f".{key}" if is_name else f"[key {number}]", child
    else:
        for number, child in enumerate(container):
            yield f"[{number}]", child


def _complaint(part: Any) -> str | None:
    """Say what is wrong with *part* itself, leaving aside what it contains."""
    if isinstance(part, dict):
        return _key_complaint(part)
    if part is None or isinstance(part, _CONTAINERS):
        return None
    if isinstance(part, str):
        return "a lone surrogate in a string" if _has_surrogate(part) else None
    if isinstance(part, float):
        return None if math.isfinite(part) else "NaN or an infinity"
    if isinstance(part, int):
        return "an integer with too many digits" if _is_too_long(part) else None
    return f"a value of type {type(part).__name__}"


def _key_complaint(container: dict[Any, Any]) -> str | None:
    for key in container:
        if not isinstance(key, str):
            return f"an object key of type {type(key).__name__} (only str is allowed)"
        if _has_surrogate(key):
            return "a lone surrogate in an object key"
    return None


def _has_surrogate(text: str) -> bool:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return True
    return False


def _is_too_long(number: int) -> bool:
    try:
        int.__repr__(number)
    except ValueError:
        return True
    return False
