"""Section 3: codecs of the application's own, also such as fail."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from alkstore._typing import override
from alkstore.codec import Codec, JsonCodec
from alkstore.errors import DecodeError, EncodeError
from alkstore.stop_token import StopToken
from alkstore.testing.contract.base import (
    LIMIT,
    PROMPT,
    Background,
    Contract,
    claim,
    live,
    schedule,
    wait_until,
)
from alkstore.testing.harness import EngineHarness
from alkstore.traits import JobHandle, Store


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


class RawCodec(Codec):
    """Bytes, as they are."""

    @override
    def encode(self, value: Any) -> bytes:
        raw: bytes = value
        return raw

    @override
    def decode(self, raw: bytes) -> Any:
        return raw


class BrokenCodec(Codec):
    """Raises its `error`, whatever it is asked for."""

    def __init__(self) -> None:
        self.error: Exception = NotImplementedError()

    @override
    def encode(self, value: Any) -> bytes:  # noqa: ARG002 - of the trait
        raise self.error

    @override
    def decode(self, raw: bytes) -> Any:  # noqa: ARG002 - of the trait
        raise self.error


class ReturningCodec(RawCodec):
    """Encodes everything as what it has to return, whatever that is."""

    def __init__(self) -> None:
        self.returned: Any = None

    @override
    def encode(self, value: Any) -> bytes:  # noqa: ARG002 - of the trait
        return super().encode(self.returned)


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


class OfTheApplication(Exception):
    """What nobody but the application knows."""


FAILURES: list[Exception] = [
    KeyError("secret"), TypeError("secret"), ValueError("secret"), AssertionError("secret"),
    RecursionError("secret"), MemoryError("secret"), OSError(5, "secret"), StopIteration("secret"),
    OfTheApplication("secret"),
]  # fmt: skip
"""What a codec may raise."""

NO_BYTES: list[Any] = [None, 5, "secret", bytearray(b"secret"), [b"secret"]]
"""What a codec may return by mistake."""


def _run(store: Store, delivery: Callable[[JobHandle], object]) -> Callable[[], object]:
    stop = StopToken()
    runner = Background(lambda: store.outbox("mail").run("worker", delivery, stop))

    def end() -> None:
        assert runner.running
        stop.cancel()
        runner.result(PROMPT)

    return end


def _start_outbox(store: Store, delivery: Callable[[JobHandle], object]) -> Callable[[], object]:
    runner = store.start_outbox("mail", delivery)

    def end() -> None:
        assert (runner.state, runner.last_error) == ("working", None)
        assert runner.stop(LIMIT)

    return end


RELAYS = {"run": _run, "start_outbox": _start_outbox}
"""What delivers the messages of an outbox; each returns what ends it."""


class OwnCodecsContract(Contract):
    """A codec is asked once at the entry point and once a reading; what it fails of is told."""

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

    @pytest.mark.parametrize("relay", RELAYS.values(), ids=RELAYS)
    def test_a_payload_that_does_not_decode_is_an_ordinary_failed_attempt_of_a_relay(
        self,
        engine: EngineHarness,
        store: Store,
        relay: Callable[[Store, Callable[[JobHandle], object]], Callable[[], object]],
    ) -> None:
        outbox = store.outbox("mail")
        bad = engine.open(codec=BackwardsCodec()).outbox("mail").enqueue("not json", priority=1)
        seen: list[Any] = []
        end = relay(store, lambda handle: seen.append(handle.payload))
        wait_until(lambda: outbox.stats().retrying == 1)
        good = outbox.enqueue("good")
        wait_until(lambda: store.get_job(good) is None)
        assert seen == ["good"]
        end()
        job = live(store, bad)
        assert (job.state, job.attempts, job.raw) == ("pending", 1, b"nosj ton")

    @entry_points
    def test_whatever_a_codec_raises_is_an_encode_error_and_leaves_no_trace(
        self, engine: EngineHarness, enter: Callable[[Store, Any], object]
    ) -> None:
        codec = BrokenCodec()
        store = engine.open(codec=codec)
        for failure in FAILURES:
            codec.error = failure
            with pytest.raises(EncodeError) as refused:
                enter(store, "secret")
            assert refused.value.__cause__ is failure
            assert "secret" not in str(refused.value)
        assert is_empty(store)

    @entry_points
    def test_what_a_codec_returns_that_is_no_bytes_is_an_encode_error(
        self, engine: EngineHarness, enter: Callable[[Store, Any], object]
    ) -> None:
        codec = ReturningCodec()
        store = engine.open(codec=codec)
        for returned in NO_BYTES:
            codec.returned = returned
            with pytest.raises(EncodeError) as refused:
                enter(store, "secret")
            assert "secret" not in str(refused.value)
        assert is_empty(store)

    def test_whatever_a_codec_raises_is_a_decode_error_where_a_payload_is_read(
        self, engine: EngineHarness, store: Store
    ) -> None:
        store.schedule("s", "@every 1h", "mail", "secret")
        jobs = store.queue("mail").enqueue_many(["secret", "secret"])
        codec = BrokenCodec()
        reader = engine.open(codec=codec)
        queue = reader.queue("mail")
        first, second = queue.claim("worker", 2)
        assert first.fail("unreadable")
        found, (letter,) = live(reader, jobs[1]), queue.dead()
        holders: list[Any] = [first, second, found, letter, schedule(reader, "s"), *queue.peek()]
        for holder in holders:
            for failure in FAILURES:
                codec.error = failure
                with pytest.raises(DecodeError) as refused:
                    _ = holder.payload
                assert refused.value.__cause__ is failure
                assert "secret" not in str(refused.value)
            assert holder.raw == b'"secret"'
        assert second.ack()
