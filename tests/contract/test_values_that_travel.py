"""Jobs, dead letters and schedules can be pickled and copied, with either engine."""

from __future__ import annotations

import copy
import pickle
import threading
from collections.abc import Callable
from dataclasses import asdict, astuple, replace
from typing import Any

import pytest

from alkstore import DecodeError, Store
from alkstore._typing import override
from alkstore.codec import JsonCodec
from alkstore.testing import EngineHarness

WAYS: dict[str, Callable[[Any], Any]] = {
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
    "the oldest pickle": lambda value: there_and_back(value, 2),
    "the newest pickle": lambda value: there_and_back(value, pickle.HIGHEST_PROTOCOL),
}
every_way = pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)


def there_and_back(value: object, protocol: int) -> Any:
    """Return what another process would have after *value* was sent there."""
    return pickle.loads(pickle.dumps(value, protocol))  # noqa: S301 - the test's own


class Locked(JsonCodec):
    """A codec that holds what cannot be pickled."""

    def __init__(self) -> None:
        self.decode_too = lambda: None
        self.lock = threading.Lock()

    @override
    def decode(self, raw: bytes) -> Any:
        return super().decode(raw)


def some_of(store: Store) -> list[Any]:
    """Return a job, a dead letter and a schedule with the same payload."""
    queue = store.queue("mail")
    dead, alive = queue.enqueue_many([{"to": ["ann"]}] * 2)
    assert queue.claim("worker")[0].fail("no")
    found = store.get_job(alive)
    (letter,) = queue.dead()
    assert (letter.id, found is None) == (dead, False)
    return [found, letter, store.schedule("s", "@every 1h", "mail", {"to": ["ann"]})]


@every_way
def test_a_value_is_the_same_on_the_other_side(store: Store, way: Callable[[Any], Any]) -> None:
    for value in some_of(store):
        there = way(value)
        assert there == value
        assert (there.raw, there.payload) == (value.raw, {"to": ["ann"]})
        assert type(there) is type(value)


def test_it_is_decoded_when_it_is_read_there_too(store: Store) -> None:
    job = some_of(store)[0]
    damaged = there_and_back(replace(job, stored=replace(job.stored, raw=b"*")), 2)
    with pytest.raises(DecodeError):
        _ = damaged.payload


def test_a_copy_shares_the_codec_of_its_store(engine: EngineHarness) -> None:
    for value in some_of(engine.open(codec=Locked())):
        assert copy.deepcopy(value).stored is value.stored


def test_a_value_is_taken_apart_without_copying_the_codec(engine: EngineHarness) -> None:
    """`dataclasses.asdict` copies what it finds, however deep."""
    for value in some_of(engine.open(codec=Locked())):
        assert asdict(value)["stored"]["raw"] == value.raw
        assert astuple(value)
