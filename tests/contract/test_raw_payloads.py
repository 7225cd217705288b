"""What a codec returns is stored as plain bytes, whatever class it has."""

from __future__ import annotations

from typing import Any

from alkstore import Codec
from alkstore._typing import override
from alkstore.testing import EngineHarness


class _Pretender:
    """Gives other bytes than it has."""

    def __bytes__(self) -> bytes:
        return b"another"


class _Loud(_Pretender, bytes):
    """Bytes with a behaviour of their own."""

    @override
    def __len__(self) -> int:
        return 0

    @override
    def decode(self, *_: Any, **__: Any) -> str:
        raise AssertionError("the class of the codec's own bytes came back")


class _LoudCodec(Codec):
    @override
    def encode(self, value: Any, /) -> bytes:
        return _Loud(value.encode())

    @override
    def decode(self, raw: bytes, /) -> Any:
        return raw.decode()


def test_a_subclass_of_bytes_is_stored_as_plain_bytes(engine: EngineHarness) -> None:
    store = engine.open(codec=_LoudCodec())
    queue = store.queue("mail")
    queue.enqueue("hello")
    store.schedule("s", "@every 1h", "mail", "hello")
    (handle,) = queue.claim("worker")
    found = store.get_schedule("s")
    assert found is not None
    assert (type(handle.raw), handle.raw, handle.payload) == (bytes, b"hello", "hello")
    assert found.payload == "hello"
