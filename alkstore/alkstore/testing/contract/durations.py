"""Section 4: durations are seconds or a `timedelta`, wherever one is given."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from alkstore.errors import InvalidOption, LockTimeout
from alkstore.testing.contract.base import (
    LIMIT,
    Contract,
    claim,
    live,
    refused,
    spanning,
    wait_until,
)
from alkstore.testing.contract.kept_locks import take
from alkstore.testing.harness import EngineHarness
from alkstore.traits import Store

DURATIONS: list[Any] = [-1, -0.001, math.nan, math.inf, 36_500 * 86_400 + 1, "5", True, [5]]
"""What is no duration."""

NO_DURATIONS: list[Any] = [*DURATIONS, 0, timedelta(0), 0.0001]
"""What is none where one of nothing makes no sense."""

Call = Callable[[Any], object]
"""A call with a duration."""


def _held(store: Store, do: Callable[[Any, Any], object]) -> Call:
    """Return *do* with a claimed job."""
    store.queue("mail").enqueue(1)
    handle = claim(store.queue("mail"))
    return lambda value: do(handle, value)


REFUSALS: dict[str, tuple[list[Any], Callable[[Store], Call]]] = {
    "claim_wait, timeout": (
        DURATIONS,
        lambda store: lambda value: store.queue("mail").claim_wait("w", timeout=value),
    ),
    "retry, delay": (DURATIONS, lambda store: _held(store, lambda job, gap: job.retry("x", gap))),
    "heartbeat, extend": (
        NO_DURATIONS,
        lambda store: _held(store, lambda job, length: job.heartbeat(length)),
    ),
    "heartbeat_many, at_least": (
        DURATIONS,
        lambda store: lambda value: store.queue("mail").heartbeat_many([], at_least=value),
    ),
    "purge, older_than": (
        DURATIONS,
        lambda store: lambda value: store.queue("mail").purge(older_than=value),
    ),
    "try_lock, ttl": (NO_DURATIONS, lambda store: lambda value: store.try_lock("door", value)),
    "lock, ttl": (NO_DURATIONS, lambda store: lambda value: store.lock("door", value)),
    "lock, timeout": (
        DURATIONS,
        lambda store: lambda value: store.lock("door", 60, timeout=value),
    ),
    "renew, ttl": (NO_DURATIONS, lambda store: take(store).renew),
    "wait, timeout": (DURATIONS, lambda store: store.listen("news").wait),
    "stop, timeout": (DURATIONS, lambda store: store.start_worker("mail", print).stop),
    "join, timeout": (DURATIONS, lambda store: store.start_worker("mail", print).join),
}
"""What each call takes for no duration, and how to make the call."""


def _lock_in_vain(store: Store) -> Call:
    take(store, 3600)

    def wait(limit: Any) -> None:
        with pytest.raises(LockTimeout):
            store.lock("door", 60, timeout=limit)

    return wait


WAITS: dict[str, Callable[[Store], Call]] = {
    "claim_wait": lambda store: lambda limit: store.queue("mail").claim_wait("w", timeout=limit),
    "lock": _lock_in_vain,
    "wait": lambda store: store.listen("news").wait,
    "join": lambda store: store.start_worker("mail", print).join,
}
"""Calls that wait in vain until their time is up."""


def _is_leased(engine: EngineHarness, store: Store) -> None:
    engine.advance(3900)
    assert store.try_lock("door", 60) is None
    engine.advance(100)
    assert store.try_lock("door", 60) is not None


def _try_lock(engine: EngineHarness, store: Store, length: Any) -> None:
    take(store, length)
    _is_leased(engine, store)


def _lock(engine: EngineHarness, store: Store, length: Any) -> None:
    store.lock("door", length)
    _is_leased(engine, store)


def _renew(engine: EngineHarness, store: Store, length: Any) -> None:
    assert take(store, 10).renew(length)
    _is_leased(engine, store)


def _visibility_timeout(engine: EngineHarness, store: Store, length: Any) -> None:
    queue = store.queue("mail", visibility_timeout=length)
    job = queue.enqueue(1)
    with spanning(engine) as span:
        assert claim(queue).visibility_timeout == 4000
    assert live(store, job).claim_expires_at in span + 4000


def _at_least(engine: EngineHarness, store: Store, length: Any) -> None:
    queue = store.queue("mail")
    job = queue.enqueue(1)
    handle = claim(queue)
    with spanning(engine) as span:
        assert queue.heartbeat_many([handle], at_least=length) == 1
    assert live(store, job).claim_expires_at in span + 4000


def _older_than(engine: EngineHarness, store: Store, length: Any) -> None:
    queue = store.queue("mail")
    queue.enqueue(1)
    assert claim(queue).fail("x")
    engine.advance(3900)
    assert queue.purge(older_than=length) == 0
    engine.advance(100)
    assert queue.purge(older_than=length) == 1


def _expires_of_a_schedule(engine: EngineHarness, store: Store, length: Any) -> None:
    made = store.schedule("s", "@every 1d", "mail", 1, expires=length)
    assert made.expires == timedelta(seconds=4000)
    with spanning(engine) as span:
        job = store.run_now("s")
    assert live(store, job).expires_at in span + 4000


EFFECTS: dict[str, Callable[[EngineHarness, Store, Any], None]] = {
    "try_lock, ttl": _try_lock,
    "lock, ttl": _lock,
    "renew, ttl": _renew,
    "queue, visibility_timeout": _visibility_timeout,
    "heartbeat_many, at_least": _at_least,
    "purge, older_than": _older_than,
    "schedule, expires": _expires_of_a_schedule,
}
"""What 4,000 seconds do."""


class DurationsContract(Contract):
    """Each call takes durations in both forms, and refuses what is none."""

    @pytest.mark.parametrize("call", REFUSALS)
    def test_what_is_no_duration_is_refused(self, store: Store, call: str) -> None:
        wrong, prepare = REFUSALS[call]
        make = prepare(store)
        for value in wrong:
            with refused(InvalidOption, value):
                make(value)

    @pytest.mark.parametrize("effect", EFFECTS.values(), ids=EFFECTS)
    @pytest.mark.parametrize("length", [4000, timedelta(seconds=4000)], ids=["number", "timedelta"])
    def test_a_duration_is_the_same_in_seconds_and_as_a_timedelta(
        self,
        engine: EngineHarness,
        store: Store,
        effect: Callable[[EngineHarness, Store, Any], None],
        length: Any,
    ) -> None:
        effect(engine, store, length)

    @pytest.mark.parametrize("call", WAITS.values(), ids=WAITS)
    def test_a_time_limit_is_the_same_in_seconds_and_as_a_timedelta(
        self, store: Store, call: Callable[[Store], Call]
    ) -> None:
        wait = call(store)
        for limit in (0.05, timedelta(seconds=0.05)):
            begin = time.monotonic()
            assert not wait(limit)
            assert 0.05 <= time.monotonic() - begin < LIMIT

    def test_a_renewal_that_is_refused_leaves_the_lease_as_it_was(
        self, engine: EngineHarness, store: Store
    ) -> None:
        handle = take(store, 4000)
        for value in NO_DURATIONS:
            with refused(InvalidOption, value):
                handle.renew(value)
        assert not handle.lost
        _is_leased(engine, store)

    def test_a_runner_that_was_not_asked_to_stop_in_a_possible_time_goes_on(
        self, store: Store
    ) -> None:
        queue = store.queue("mail")
        runner = store.start_worker("mail", print)
        for value in DURATIONS:
            with refused(InvalidOption, value):
                runner.stop(value)
        queue.enqueue(1)
        wait_until(lambda: queue.size() == 0)
        assert not runner.join(0)
        assert runner.stop(timedelta(seconds=LIMIT))
        assert runner.join(timedelta(0))
