"""Section 11: no job is acknowledged whose handler only made something that is still to be run."""

from __future__ import annotations

import functools
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest

from alkstore.errors import InvalidOption
from alkstore.stop_token import StopToken
from alkstore.testing.contract.base import LIMIT, Contract, refused, wait_until
from alkstore.traits import JobHandle, Store


async def _coroutine_function(_: JobHandle) -> None:
    raise AssertionError


def _generator_function(_: JobHandle) -> Iterator[None]:
    yield
    raise AssertionError


async def _async_generator_function(_: JobHandle) -> AsyncIterator[None]:
    yield
    raise AssertionError


class _Relay:
    async def __call__(self, _: JobHandle) -> None:
        raise AssertionError


NOTHING_RUNS: list[Any] = [
    _coroutine_function,
    _generator_function,
    _async_generator_function,
    functools.partial(_coroutine_function),
    _Relay(),
]
"""Callables that do nothing when they are called."""


def _run(store: Store, work: Any) -> None:
    stop = StopToken()
    stop.cancel()  # who does not refuse it returns
    store.outbox("mail").run("relay", work, stop)


ENTRIES: dict[str, Callable[[Store, Any], object]] = {
    "start_worker": lambda store, work: store.start_worker("mail", work),
    "start_outbox": lambda store, work: store.start_outbox("mail", work),
    "run_once": lambda store, work: store.outbox("mail").run_once("relay", work),
    "run": _run,
}


class UnfinishedWorkContract(Contract):
    """A handler, or a delivery, does its work while it is called."""

    @pytest.mark.parametrize("entry", ENTRIES.values(), ids=ENTRIES)
    def test_a_handler_that_does_nothing_when_it_is_called_is_refused_before_anything_is_claimed(
        self, store: Store, entry: Callable[[Store, Any], object]
    ) -> None:
        store.queue("mail").enqueue(1)
        store.outbox("mail").enqueue(1)
        for work in NOTHING_RUNS:
            with refused(InvalidOption, work):
                entry(store, work)
        for source in (store.queue("mail"), store.outbox("mail")):
            assert [(job.state, job.attempts) for job in source.peek()] == [("pending", 0)]

    @pytest.mark.parametrize(
        "made_by", [_coroutine_function, _generator_function], ids=["coroutine", "generator"]
    )
    def test_where_only_the_result_tells_that_nothing_was_done_the_attempt_has_failed(
        self, store: Store, made_by: Callable[[JobHandle], object]
    ) -> None:
        def work(handle: JobHandle) -> object:
            return made_by(handle)

        queue, outbox, relayed = store.queue("mail"), store.outbox("mail"), store.outbox("relayed")
        jobs = [queue.enqueue(1, max_attempts=1), outbox.enqueue(1, max_attempts=1)]
        runners = [store.start_worker("mail", work), store.start_outbox("mail", work)]
        for job, dead in zip(jobs, (queue.dead, outbox.dead), strict=True):
            wait_until(dead)
            (letter,) = dead()
            assert letter.id == job
            assert letter.error
        relayed.enqueue(1)
        assert relayed.run_once("relay", work)
        assert [job.attempts for job in relayed.peek()] == [1]
        assert all(runner.stop(LIMIT) for runner in runners)
