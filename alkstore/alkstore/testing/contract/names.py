"""Section 2: names."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import pytest

from alkstore.errors import AlkstoreError, InvalidName, ReservedName
from alkstore.stop_token import StopToken
from alkstore.testing.contract.base import Contract, claim, refused
from alkstore.traits import Store


def _nothing(*_: object) -> None: ...


def _in_transaction(call: Callable[[Store, Any, str], object]) -> Callable[[Store, str], object]:
    def enter(store: Store, name: str) -> object:
        with store.transaction() as tx:
            return call(store, tx, name)

    return enter


ENTRY_POINTS: dict[str, Callable[[Store, str], object]] = {
    "queue": lambda store, name: store.queue(name),
    "outbox": lambda store, name: store.outbox(name),
    "try_lock": lambda store, name: store.try_lock(name, 1),
    "lock": lambda store, name: store.lock(name, 1, timeout=0),
    "schedule": lambda store, name: store.schedule(name, "@every 1h", "q", 1),
    "schedule, queue": lambda store, name: store.schedule("s", "@every 1h", name, 1),
    "unschedule": lambda store, name: store.unschedule(name),
    "get_schedule": lambda store, name: store.get_schedule(name),
    "pause": lambda store, name: store.pause(name),
    "resume": lambda store, name: store.resume(name),
    "run_now": lambda store, name: store.run_now(name),
    "notify": lambda store, name: store.notify(name),
    "listen": lambda store, name: store.listen("good", name),
    "start_worker": lambda store, name: store.start_worker(name, _nothing),
    "start_outbox": lambda store, name: store.start_outbox(name, _nothing),
    "enqueue_tx": _in_transaction(lambda store, tx, name: store.enqueue_tx(tx, name, 1)),
    "outbox_enqueue_tx": _in_transaction(
        lambda store, tx, name: store.outbox_enqueue_tx(tx, name, 1)
    ),
    "notify_tx": _in_transaction(lambda store, tx, name: store.notify_tx(tx, name)),
}

BAD_NAMES: list[object] = [
    "", "x" * 201, "é" * 101, "a\nb", "a\0b", "a\x7fb", "a\x85b", "a\ud800b", b"name", None, 3,
]  # fmt: skip

RESERVED_NAMES = ["__alkstore_", "__alkstore_scheduler", "__alkstore_outbox:mail", "__alkstore_x"]

GOOD_NAMES = [
    "a", "two words", "it's; DROP TABLE jobs; --", 'a "quoted" one', "a/b\\c", "%s %(x)s {y}",
    "🦆🦆", "naïve", " edges ", "__alkstor", "x" * 200, "é" * 100, "\u202eright to left",
]  # fmt: skip

ALIKE = [
    ("e\u0301tude", "\u00e9tude"), ("\ufb01le", "file"), ("Mail", "mail"), ("post", "post "),
]  # fmt: skip

entry_points = pytest.mark.parametrize("enter", ENTRY_POINTS.values(), ids=ENTRY_POINTS)
good_names = pytest.mark.parametrize("name", GOOD_NAMES, ids=lambda name: ascii(name)[1:25])


class NamesContract(Contract):
    """Every public entry point that takes a name applies the naming rule."""

    @entry_points
    def test_a_bad_name_is_refused_by_every_entry_point(
        self, store: Store, enter: Callable[[Store, str], object]
    ) -> None:
        for name in cast("list[str]", BAD_NAMES):
            with refused(InvalidName, name):
                enter(store, name)
        assert store.schedules() == []

    @entry_points
    def test_a_reserved_name_is_refused_by_every_entry_point(
        self, store: Store, enter: Callable[[Store, str], object]
    ) -> None:
        for name in RESERVED_NAMES:
            with refused(ReservedName, name):
                enter(store, name)
        assert store.schedules() == []

    def test_a_refused_argument_is_a_value_error(self, store: Store) -> None:
        queue = store.queue("q")
        for call in (
            lambda: store.queue(""),
            lambda: store.try_lock("__alkstore_x", 1),
            lambda: store.schedule("s", "never", "q", 1),
            lambda: queue.enqueue(1, priority=10**6),
            lambda: queue.enqueue(object()),
            lambda: queue.enqueue("x" * 2**20),
            lambda: queue.claim("worker", 0),
            store.listen,
        ):
            with pytest.raises(ValueError) as refusal:  # noqa: PT011 - the class is the promise
                call()
            assert isinstance(refusal.value, AlkstoreError)

    def test_a_worker_id_obeys_the_rule_as_well(self, store: Store) -> None:
        queue, outbox, stop = store.queue("q"), store.outbox("o"), StopToken()
        queue.enqueue(1)
        outbox.enqueue(1)
        calls: list[Callable[[str], object]] = [
            queue.claim,
            queue.claim_wait,
            queue.jobs,
            lambda name: outbox.run_once(name, _nothing),
            lambda name: outbox.run(name, _nothing, stop),
        ]
        for call in calls:
            for name in cast("list[str]", BAD_NAMES):
                with refused(InvalidName, name):
                    call(name)
            for name in RESERVED_NAMES:
                with refused(ReservedName, name):
                    call(name)
        assert (queue.stats().ready, outbox.stats().ready) == (1, 1)

    @good_names
    def test_any_text_within_the_limits_names_a_queue(self, store: Store, name: str) -> None:
        job = store.queue(name).enqueue(1)
        handle = claim(store.queue(name))
        assert (handle.id, handle.queue) == (job, name)
        assert store.queue("another").size() == 0

    def test_names_that_only_look_alike_are_two(self, store: Store) -> None:
        for one, two in ALIKE:
            job = store.queue(one).enqueue(1)
            assert store.queue(two).claim("worker") == []
            assert store.queue(two).size() == 0
            assert claim(store.queue(one)).id == job
            assert store.try_lock(one, 60) is not None
            assert store.try_lock(two, 60) is not None
            assert store.schedule(one, "@every 1h", "q", 1).name == one
            assert store.get_schedule(two) is None
            assert not store.unschedule(two)
            assert store.unschedule(one)
            store.outbox(one).enqueue(1)
            assert not store.outbox(two).run_once("worker", _nothing)

    @good_names
    def test_any_text_within_the_limits_names_a_schedule(self, store: Store, name: str) -> None:
        assert store.schedule(name, "@every 1h", name, 1).name == name
        (found,) = store.schedules()
        assert (found.name, found.queue) == (name, name)
        assert store.unschedule(name)

    @good_names
    def test_any_text_within_the_limits_names_a_lock(self, store: Store, name: str) -> None:
        handle = store.try_lock(name, 60)
        assert handle is not None
        assert handle.name == name
        assert store.try_lock(name, 60) is None
        assert handle.release()

    @good_names
    def test_any_text_within_the_limits_names_an_outbox(self, store: Store, name: str) -> None:
        outbox = store.outbox(name)
        message = outbox.enqueue(1)
        delivered: list[int] = []
        assert outbox.run_once("worker", lambda handle: delivered.append(handle.id))
        assert delivered == [message]

    @good_names
    def test_any_text_within_the_limits_names_a_channel(self, store: Store, name: str) -> None:
        with store.listen(name) as listener:
            store.notify(name)
            wake = listener.wait(30)
        assert wake is not None
        assert wake.channel == name
