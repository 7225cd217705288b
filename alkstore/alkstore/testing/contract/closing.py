"""Section 1: what a closed store answers. Mistakes in the call are told first, then its end."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from alkstore.errors import (
    AlkstoreError,
    EncodeError,
    InvalidName,
    InvalidOption,
    InvalidSpec,
    StoreClosed,
)
from alkstore.stop_token import StopToken
from alkstore.testing.contract.base import refused
from alkstore.testing.contract.closing_waits import ClosingWaitsContract
from alkstore.testing.harness import EngineHarness
from alkstore.traits import Store

_MISTAKES: dict[str, tuple[type[AlkstoreError], Callable[[Store], object]]] = {
    "queue, name": (InvalidName, lambda store: store.queue("")),
    "queue, option": (InvalidOption, lambda store: store.queue("q", max_attempts=0)),
    "outbox, name": (InvalidName, lambda store: store.outbox("")),
    "get_job, id": (InvalidOption, lambda store: store.get_job(0)),
    "enqueue_tx, option": (InvalidOption, lambda store: store.enqueue_tx(None, "q", 1, delay=-1)),
    "enqueue_tx, payload": (EncodeError, lambda store: store.enqueue_tx(None, "q", {1})),
    "outbox_enqueue_tx, name": (InvalidName, lambda store: store.outbox_enqueue_tx(None, "", 1)),
    "notify, name": (InvalidName, lambda store: store.notify("")),
    "notify_tx, name": (InvalidName, lambda store: store.notify_tx(None, "")),
    "listen, name": (InvalidName, lambda store: store.listen("")),
    "listen, nothing": (InvalidOption, lambda store: store.listen()),
    "try_lock, ttl": (InvalidOption, lambda store: store.try_lock("l", -1)),
    "lock, timeout": (InvalidOption, lambda store: store.lock("l", 1, timeout=-1)),
    "schedule, spec": (InvalidSpec, lambda store: store.schedule("a", "bad", "q", 1)),
    "unschedule, name": (InvalidName, lambda store: store.unschedule("")),
    "get_schedule, name": (InvalidName, lambda store: store.get_schedule("")),
    "pause, name": (InvalidName, lambda store: store.pause("")),
    "resume, name": (InvalidName, lambda store: store.resume("")),
    "run_now, name": (InvalidName, lambda store: store.run_now("")),
    "run_schedules, stop": (InvalidOption, lambda store: store.run_schedules(_wrong())),
    "start_worker, handler": (InvalidOption, lambda store: store.start_worker("q", _wrong())),
    "start_worker, count": (InvalidOption, lambda store: store.start_worker("q", print, 0)),
    "start_outbox, delivery": (InvalidOption, lambda store: store.start_outbox("o", _wrong())),
    "start_outbox, count": (InvalidOption, lambda store: store.start_outbox("o", print, 0)),
}

_CALLS: dict[str, Callable[[Store], object]] = {
    "queue": lambda store: store.queue("q"),
    "outbox": lambda store: store.outbox("o"),
    "get_job": lambda store: store.get_job(1),
    "transaction": lambda store: store.transaction().__enter__(),
    "enqueue_tx": lambda store: store.enqueue_tx(None, "q", 1),
    "outbox_enqueue_tx": lambda store: store.outbox_enqueue_tx(None, "o", 1),
    "notify": lambda store: store.notify("c"),
    "notify_tx": lambda store: store.notify_tx(None, "c"),
    "listen": lambda store: store.listen("c"),
    "try_lock": lambda store: store.try_lock("l", 1),
    "lock": lambda store: store.lock("l", 1),
    "schedule": lambda store: store.schedule("a", "@every 1h", "q", 1),
    "unschedule": lambda store: store.unschedule("a"),
    "schedules": lambda store: store.schedules(),
    "get_schedule": lambda store: store.get_schedule("a"),
    "pause": lambda store: store.pause("a"),
    "resume": lambda store: store.resume("a"),
    "run_now": lambda store: store.run_now("a"),
    "run_schedules": lambda store: store.run_schedules(StopToken()),
    "start_scheduler": lambda store: store.start_scheduler(),
    "start_worker": lambda store: store.start_worker("q", print),
    "start_outbox": lambda store: store.start_outbox("o", print),
}


class ClosingContract(ClosingWaitsContract):
    """A closed store refuses everything, mistakes as before."""

    @pytest.mark.parametrize("call", _CALLS)
    def test_a_closed_store_says_so(self, store: Store, call: str) -> None:
        store.close()
        with refused(StoreClosed, call):
            _CALLS[call](store)

    @pytest.mark.parametrize("call", _MISTAKES)
    def test_a_mistake_in_the_call_is_told_before_the_end_of_the_store(
        self, store: Store, call: str
    ) -> None:
        error, made = _MISTAKES[call]
        store.close()
        with refused(error, call):
            made(store)

    def test_the_handles_of_a_closed_store_say_so_even_when_there_is_nothing_to_do(
        self, store: Store
    ) -> None:
        queue, outbox = store.queue("q"), store.outbox("o")
        store.close()
        calls: dict[str, Callable[[], object]] = {
            "enqueue": lambda: queue.enqueue(1),
            "enqueue_many": lambda: queue.enqueue_many([]),
            "claim": lambda: queue.claim("w"),
            "claim_wait": lambda: queue.claim_wait("w", timeout=0),
            "jobs": lambda: next(queue.jobs("w")),
            "cancel": lambda: queue.cancel(1),
            "peek": queue.peek,
            "size": queue.size,
            "stats": queue.stats,
            "ack_many": lambda: queue.ack_many([]),
            "heartbeat_many": lambda: queue.heartbeat_many([]),
            "requeue": lambda: queue.requeue([]),
            "purge": lambda: queue.purge([]),
            "purge all": queue.purge,
            "dead": queue.dead,
            "enqueue of an outbox": lambda: outbox.enqueue(1),
            "peek of an outbox": outbox.peek,
            "stats of an outbox": outbox.stats,
            "dead of an outbox": outbox.dead,
            "requeue of an outbox": lambda: outbox.requeue([]),
            "purge of an outbox": lambda: outbox.purge([]),
            "run_once": lambda: outbox.run_once("w", print),
            "run": lambda: outbox.run("w", print, StopToken()),
        }
        for name, call in calls.items():
            with refused(StoreClosed, name):
                call()

    def test_a_stop_that_came_first_hides_no_closed_store(self, store: Store) -> None:
        queue, outbox, stop = store.queue("q"), store.outbox("o"), StopToken()
        stop.cancel()
        store.close()
        calls: dict[str, Callable[[], object]] = {
            "claim_wait": lambda: queue.claim_wait("w", stop=stop),
            "jobs": lambda: list(queue.jobs("w", stop=stop)),
            "lock": lambda: store.lock("l", 1, stop=stop),
            "run": lambda: outbox.run("w", print, stop),
            "run_schedules": lambda: store.run_schedules(stop),
        }
        for name, call in calls.items():
            with refused(StoreClosed, name):
                call()

    def test_an_iteration_that_was_stopped_ends_though_the_store_is_closed(
        self, store: Store
    ) -> None:
        stop, seen = StopToken(), []
        store.queue("q").enqueue_many([1, 2])
        for handle in store.queue("q").jobs("w", stop=stop):
            seen.append(handle.payload)
            stop.cancel()
            store.close()
        assert seen == [1]

    def test_what_is_known_of_a_lock_is_said_though_the_store_is_closed(
        self, engine: EngineHarness, store: Store, other: Store
    ) -> None:
        lost, freed = store.try_lock("lost", 10), store.try_lock("freed", 10)
        assert lost is not None
        assert freed is not None
        assert freed.release()
        engine.advance(11)
        assert other.try_lock("lost", 3600) is not None
        assert not lost.renew()
        store.close()
        for handle in (lost, freed):
            assert not handle.renew()
            assert not handle.release()
        assert (lost.lost, freed.lost) == (True, False)

    def test_mistakes_in_the_calls_of_its_handles_are_told_first(self, store: Store) -> None:
        queue, outbox = store.queue("q"), store.outbox("o")
        store.close()
        calls: dict[str, Callable[[], object]] = {
            "enqueue": lambda: queue.enqueue(1, delay=-1),
            "enqueue_many": lambda: queue.enqueue_many([], delay=-1),
            "claim": lambda: queue.claim("w", 0),
            "claim_wait": lambda: queue.claim_wait("w", timeout=-1),
            "ack_many": lambda: queue.ack_many(_wrong()),
            "heartbeat_many": lambda: queue.heartbeat_many([], at_least=-1),
            "cancel": lambda: queue.cancel(0),
            "peek": lambda: queue.peek(0),
            "dead": lambda: queue.dead(0),
            "requeue": lambda: queue.requeue([0]),
            "purge": lambda: queue.purge([], older_than=-1),
            "run_once": lambda: outbox.run_once("w", _wrong()),
            "run": lambda: outbox.run("w", print, _wrong()),
        }
        for name, call in calls.items():
            with refused(InvalidOption, name):
                call()


def _wrong() -> Any:
    """Return what no call takes."""
    return 7
