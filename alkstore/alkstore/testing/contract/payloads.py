"""Section 3: payloads, and the default codec."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest

from alkstore.errors import CodecError, DecodeError, EncodeError, PayloadTooLarge
from alkstore.testing.contract.base import claim, live
from alkstore.testing.contract.own_codecs import (
    OwnCodecsContract,
    RawCodec,
    entry_points,
    is_empty,
)
from alkstore.testing.harness import EngineHarness
from alkstore.traits import Queue, Store

VALUES: list[Any] = [
    None, True, 0, -1, 10**60, 1.5, "", "nul \0 inside", "🦆 \u2028", [], {}, [[[]]],
    {"a": [1, {"b": None}], "": "empty key"},
]  # fmt: skip

UNENCODABLE: dict[str, Any] = {
    "NaN": math.nan, "infinity": math.inf, "minus infinity": [-math.inf],
    "lone surrogate": "\ud800", "surrogate key": {"\udfff": 1}, "object": object(), "set": {1},
}  # fmt: skip


UNREADABLE: dict[str, bytes] = {
    "no JSON": b"secret", "cut off": b'{"secret":"secret', "no UTF-8": b'"secret\xff"',
    "a constant": b'["secret",NaN]', "too deep": b'["secret",' + b"[" * 100_000,
    "nothing": b"",
}  # fmt: skip
"""Bytes that are no payload of the default codec, and what nobody shall see in a log."""


class PayloadsContract(OwnCodecsContract):
    """Payloads are encoded once at the entry point, stored as bytes, and decoded when read."""

    @pytest.mark.parametrize("value", VALUES, ids=repr)
    def test_a_value_survives_the_round_trip(self, store: Store, queue: Queue, value: Any) -> None:
        job = queue.enqueue(value)
        assert live(store, job).payload == value
        assert claim(queue).payload == value

    def test_the_default_codec_writes_compact_utf_8_json(self, store: Store, queue: Queue) -> None:
        job = queue.enqueue({"a": [1, "é"]})
        assert live(store, job).raw == '{"a":[1,"é"]}'.encode()
        assert claim(queue).raw == '{"a":[1,"é"]}'.encode()

    def test_of_many_payloads_the_message_says_which_one_was_refused(self, queue: Queue) -> None:
        with pytest.raises(EncodeError, match=r"payloads\[2\]: .*NaN"):
            queue.enqueue_many([1, 2, math.nan, object()])
        with pytest.raises(PayloadTooLarge, match=r"payloads\[1\]: .* bytes"):
            queue.enqueue_many(["a", "b" * 2_000_000])
        assert queue.size() == 0

    @entry_points
    @pytest.mark.parametrize("value", UNENCODABLE.values(), ids=UNENCODABLE)
    def test_what_has_no_encoding_is_refused_and_leaves_no_trace(
        self, store: Store, enter: Callable[[Store, Any], object], value: Any
    ) -> None:
        with pytest.raises(EncodeError) as refused:
            enter(store, value)
        assert isinstance(refused.value, CodecError)
        assert is_empty(store)

    @entry_points
    def test_a_payload_over_a_mebibyte_is_too_large(
        self, store: Store, enter: Callable[[Store, Any], object]
    ) -> None:
        with pytest.raises(PayloadTooLarge):
            enter(store, "x" * (1024 * 1024 - 1))  # and two quotes
        assert is_empty(store)
        enter(store, "x" * (1024 * 1024 - 2))
        assert not is_empty(store)

    @entry_points
    def test_the_limit_of_a_store_counts_encoded_bytes(
        self, engine: EngineHarness, enter: Callable[[Store, Any], object]
    ) -> None:
        store = engine.open(max_payload_bytes=10)
        with pytest.raises(PayloadTooLarge):
            enter(store, "ééééx")
        assert is_empty(store)
        enter(store, "éééé")
        assert not is_empty(store)

    def test_no_message_shows_a_payload(self, engine: EngineHarness) -> None:
        store = engine.open(max_payload_bytes=10)
        for value in ("secret" * 10, {"secret", 1}):
            with pytest.raises((EncodeError, PayloadTooLarge)) as refused:
                store.queue("mail").enqueue(value)
            assert "secret" not in str(refused.value)

    @pytest.mark.parametrize("raw", UNREADABLE.values(), ids=UNREADABLE)
    def test_the_text_of_a_decode_error_shows_no_payload(
        self, engine: EngineHarness, store: Store, raw: bytes
    ) -> None:
        job = engine.open(codec=RawCodec()).queue("mail").enqueue(raw)
        holders: list[Any] = [live(store, job), claim(store.queue("mail"))]
        for holder in holders:
            with pytest.raises(DecodeError) as refused:
                _ = holder.payload
            assert str(refused.value)
            assert "secret" not in str(refused.value)
            assert holder.raw == raw
