"""What a memory store takes, and what it refuses."""

from __future__ import annotations

from typing import Any

import pytest

from alkstore import EncodeError, InvalidConnection, InvalidOption, PayloadTooLarge, Store
from alkstore.memory import ManualClock, MemoryStore, SystemClock


class Reversed:
    """A codec that is not JSON."""

    def encode(self, value: Any, /) -> bytes:
        return bytes(reversed(value))

    def decode(self, raw: bytes, /) -> Any:
        return bytes(reversed(raw))


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"bogus": 1}, "unknown option 'bogus'; allowed here: clock, codec, data, max_payload_by"),
        ({"bogus": None}, "unknown option 'bogus'"),
        ({"clock": "now"}, "clock must be"),
        ({"clock": ManualClock}, "clock must be"),
        ({"codec": Reversed}, "codec must be an object"),
        ({"codec": 7}, "codec must be an object"),
        ({"max_payload_bytes": 0}, "max_payload_bytes must be"),
        ({"max_payload_bytes": True}, "max_payload_bytes must be"),
        ({"data": MemoryStore()}, "data must be the data of another MemoryStore"),
        ({"data": MemoryStore().data, "clock": ManualClock()}, "both given"),
    ],
)
def test_impossible_options_are_refused(options: dict[str, Any], text: str) -> None:
    with pytest.raises(InvalidOption, match=text):
        MemoryStore(**options)


def test_none_counts_as_not_given() -> None:
    store = MemoryStore(clock=None, codec=None, max_payload_bytes=None, data=None)
    assert isinstance(store.clock, SystemClock)
    assert store.queue("q").enqueue({"a": 1}) == 1


def test_a_memory_store_is_a_store() -> None:
    store: Store = MemoryStore()
    with store:
        assert store.queue("q").name == "q"


def test_its_codec_and_its_limit_are_those_that_were_given() -> None:
    store = MemoryStore(codec=Reversed(), max_payload_bytes=3)
    queue = store.queue("q")
    queue.enqueue(b"abc")
    (handle,) = queue.claim("w")
    assert (handle.raw, handle.payload) == (b"cba", b"abc")
    with pytest.raises(PayloadTooLarge):
        queue.enqueue(b"abcd")
    with pytest.raises(EncodeError):
        queue.enqueue(7)


def test_what_is_refused_leaves_no_trace() -> None:
    store = MemoryStore()
    for bad in ({"delay": -1}, {"priority": 1 << 15}, {"nope": 1}):
        with pytest.raises(InvalidOption):
            store.queue("q").enqueue(1, **bad)  # type: ignore[arg-type]
    with pytest.raises(EncodeError):
        store.queue("q").enqueue_many([1, object()])
    with pytest.raises(InvalidConnection):
        store.enqueue_tx(None, "q", 1)
    assert store.queue("q").size() == 0
    assert store.queue("q").enqueue(1) == 1
