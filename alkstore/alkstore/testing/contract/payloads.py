"""Section 3: payloads and codecs."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest

from alkstore._typing import override
from alkstore.codec import Codec, JsonCodec
from alkstore.errors import CodecError, DecodeError, EncodeError, PayloadTooLarge
from alkstore.testing.contract.base import LIMIT, Contract, claim, live, wait_until
from alkstore.testing.harness import EngineHarness
from alkstore.traits import JobHandle, Queue, Store

VALUES: list[Any] = [
    None, True, 0, -1, 10**60, 1.5, "", "nul \0 inside", "🦆 \u2028", [], {}, [[[]]],
    {"a": [1, {"b": None}], "": "empty key"},
]  # fmt: skip

UNENCODABLE: dict[str, Any] = {
    "NaN": math.nan, "infinity": math.inf, "minus infinity": [-math.inf],
    "lone surrogate": "\ud800", "surrogate key": {"\udfff": 1}, "object": object(), "set": {1},
}  # fmt: skip


def _tx(store: Store, payload: Any) -> object:
    with store.transaction() as tx:
        return store.enqueue_tx(tx, "mail", payload)


def _outbox_tx(store: Store, payload: Any) -> object:
    with store.transaction() as tx:
        return store.outbox_enqueue_tx(tx, "mail", payload)


ENTRY_POINTS: dict[str, Callable[[Store, Any], object]] = {
    "enqueue": lambda store, payload: store.queue("mail").enqueue(payload),
    "enqueue_many": lambda store, payload: store.queue("mail").enqueue_many([1, payload]),
    "enqueue_tx": _tx,
    "schedule": lambda store, payload: store.schedule("s", "@every 1h", "mail", payload),
    "outbox": lambda store, payload: store.outbox("mail").enqueue(payload),
    "outbox_enqueue_tx": _outbox_tx,
}

entry_points = pytest.mark.parametrize("enter", ENTRY_POINTS.values(), ids=ENTRY_POINTS)


def is_empty(store: Store) -> bool:
    """Return whether nothing was stored by any of the entry points."""
    stats = store.outbox("mail").stats()
    return (store.queue("mail").size(), store.schedules(), stats.ready) == (0, [], 0)


class BackwardsCodec(Codec):
    """Text only, backwards; it counts what it is asked for."""

    def __init__(self) -> None:
        self.encoded: list[Any] = []
        self.decoded: list[bytes] = []

    @override
    def encode(self, value: Any) -> bytes:
        self.encoded.append(value)
        text: str = value[::-1]
        return text.encode()

    @override
    def decode(self, raw: bytes) -> Any:
        self.decoded.append(raw)
        return raw.decode()[::-1]


class CountingCodec(JsonCodec):
    """JSON; it counts what it is asked for."""

    def __init__(self) -> None:
        self.encoded: list[Any] = []
        self.decoded: list[bytes] = []

    @override
    def encode(self, value: Any) -> bytes:
        self.encoded.append(value)
        return super().encode(value)

    @override
    def decode(self, raw: bytes) -> Any:
        self.decoded.append(raw)
        return super().decode(raw)


class PayloadsContract(Contract):
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

    def test_a_codec_encodes_once_and_decodes_only_when_a_payload_is_read(
        self, engine: EngineHarness
    ) -> None:
        codec = BackwardsCodec()
        store = engine.open(codec=codec)
        queue = store.queue("mail")
        job = queue.enqueue("abc")
        assert codec.encoded == ["abc"]
        handle = claim(queue)
        found = live(store, job)
        assert codec.decoded == []
        assert handle.raw == found.raw == b"cba"
        assert handle.payload == found.payload == "abc"
        assert codec.encoded == ["abc"]
        assert codec.decoded == [b"cba", b"cba"]

    @entry_points
    def test_a_payload_is_encoded_once(
        self, engine: EngineHarness, enter: Callable[[Store, Any], object]
    ) -> None:
        codec = CountingCodec()
        enter(engine.open(codec=codec), "abc")
        assert codec.encoded.count("abc") == 1
        assert codec.decoded == []

    def test_a_payload_that_does_not_decode_is_claimed_all_the_same(
        self, engine: EngineHarness, store: Store
    ) -> None:
        engine.open(codec=BackwardsCodec()).queue("mail").enqueue("not json")
        handle = claim(store.queue("mail"))
        with pytest.raises(DecodeError):
            _ = handle.payload
        assert handle.raw == b"nosj ton"
        assert handle.fail("unreadable")
        (letter,) = store.queue("mail").dead()
        with pytest.raises(DecodeError):
            _ = letter.payload
        assert letter.raw == b"nosj ton"

    def test_a_payload_that_does_not_decode_is_an_ordinary_failed_attempt_of_a_worker(
        self, engine: EngineHarness, store: Store
    ) -> None:
        writer = engine.open(codec=BackwardsCodec()).queue("mail", max_attempts=1)
        writer.enqueue("not json")
        seen: list[Any] = []

        def handler(handle: JobHandle) -> None:
            seen.append(handle.payload)

        runner = store.start_worker("mail", handler)
        wait_until(lambda: store.queue("mail").dead())
        good = store.queue("mail").enqueue("good")
        wait_until(lambda: seen)
        assert seen == ["good"]
        assert runner.last_error is None
        assert runner.stop(LIMIT)
        assert store.get_job(good) is None
