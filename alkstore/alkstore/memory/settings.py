"""A memory store's own options, typed and resolved."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypedDict

from alkstore.arguments import positive_int, refuse_unknown
from alkstore.codec import DEFAULT_MAX_PAYLOAD_BYTES, Codec, JsonCodec
from alkstore.errors import InvalidOption
from alkstore.memory.clock import Clock, SystemClock
from alkstore.memory.data import MemoryData

_LARGEST_PAYLOAD = 256 * 1024 * 1024


class MemoryOptions(TypedDict, total=False):
    """What a memory store takes; ``None`` counts as not given, as for every option.

    Attributes:
        clock: The store clock; `SystemClock` unless set. A `ManualClock` stands still until
            it is stepped.
        codec: Turns payloads into bytes; JSON unless set.
        max_payload_bytes: The largest encoded payload; 1 MiB unless set.
        data: The tables of another store, to play several processes over one database;
            their clock is used. See also `MemoryStore.sibling`.
    """

    clock: Clock | None
    codec: Codec | None
    max_payload_bytes: int | None
    data: MemoryData | None


@dataclass(frozen=True, slots=True)
class MemorySettings:
    """Resolved `MemoryOptions`."""

    data: MemoryData
    codec: Codec
    max_payload_bytes: int


def resolve_memory(options: Mapping[str, Any]) -> MemorySettings:
    """Resolve the options of a memory store.

    Raises:
        InvalidOption: One is unknown or impossible, or *clock* and *data* were both given.
    """
    refuse_unknown(options, MemoryOptions)
    return MemorySettings(
        data=_check_data(options.get("clock"), options.get("data")),
        codec=_check_codec(options.get("codec")),
        max_payload_bytes=_check_limit(options.get("max_payload_bytes")),
    )


def _check_data(clock: object, data: object) -> MemoryData:
    if data is None:
        if clock is None:
            return MemoryData(SystemClock())
        if isinstance(clock, type) or not isinstance(clock, Clock):
            msg = "clock must be an object with now, nap, attach and detach, such as ManualClock()"
            raise InvalidOption(msg)
        return MemoryData(clock)
    if clock is not None:
        msg = "clock and data were both given; the tables have a clock of their own"
        raise InvalidOption(msg)
    if not isinstance(data, MemoryData):
        msg = f"data must be the data of another MemoryStore, not a {type(data).__name__}"
        raise InvalidOption(msg)
    return data


def _check_codec(codec: object) -> Codec:
    if codec is None:
        return JsonCodec()
    if isinstance(codec, type) or not isinstance(codec, Codec):
        msg = "codec must be an object with encode(value) and decode(bytes)"
        raise InvalidOption(msg)
    return codec


def _check_limit(max_payload_bytes: object) -> int:
    if max_payload_bytes is None:
        return DEFAULT_MAX_PAYLOAD_BYTES
    return positive_int(max_payload_bytes, "max_payload_bytes", most=_LARGEST_PAYLOAD)
