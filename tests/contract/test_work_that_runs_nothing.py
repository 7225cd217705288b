"""No job is acknowledged whose handler only made something that is still to be run."""

from __future__ import annotations

import functools
import logging
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest

from alkstore import InvalidOption, JobHandle, StopToken, Store
from alkstore.testing.contract.base import wait_until


async def coroutine_function(_: JobHandle) -> None:
    raise AssertionError


def generator_function(_: JobHandle) -> Iterator[None]:
    yield
    raise AssertionError


async def async_generator_function(_: JobHandle) -> AsyncIterator[None]:
    yield
    raise AssertionError


class Relay:
    async def __call__(self, _: JobHandle) -> None:
        raise AssertionError


NOTHING_RUNS: list[Any] = [
    coroutine_function,
    generator_function,
    async_generator_function,
    functools.partial(coroutine_function),
    Relay(),
]

ENTRIES: dict[str, Callable[[Store, Any], object]] = {
    "start_worker": lambda store, work: store.start_worker("mail", work),
    "start_outbox": lambda store, work: store.start_outbox("mail", work),
    "run_once": lambda store, work: store.outbox("mail").run_once("relay", work),
    "run": lambda store, work: store.outbox("mail").run("relay", work, StopToken()),
}


@pytest.mark.parametrize("entry", ENTRIES)
def test_it_is_refused_before_anything_is_claimed(store: Store, entry: str) -> None:
    store.queue("mail").enqueue(1)
    store.outbox("mail").enqueue(1)
    for work in NOTHING_RUNS:
        with pytest.raises(InvalidOption, match="must do its work while it is called"):
            ENTRIES[entry](store, work)
    for source in (store.queue("mail"), store.outbox("mail")):
        assert [(job.state, job.attempts) for job in source.peek()] == [("pending", 0)]


@pytest.mark.parametrize("made_by", [coroutine_function, generator_function])
def test_where_only_the_result_tells_it_the_attempt_has_failed(
    store: Store, made_by: Callable[[JobHandle], object], caplog: pytest.LogCaptureFixture
) -> None:
    def work(handle: JobHandle) -> object:
        return made_by(handle)

    caplog.set_level(logging.ERROR, "alkstore")
    queue, outbox, relayed = store.queue("mail"), store.outbox("mail"), store.outbox("relayed")
    queue.enqueue(1, max_attempts=1)
    outbox.enqueue(1, max_attempts=1)
    relayed.enqueue(1)
    store.start_worker("mail", work)
    store.start_outbox("mail", work)
    for source in (queue, outbox):
        wait_until(source.dead)
        (letter,) = source.dead()
        assert "which nothing runs, so the work was not done" in letter.error
    assert relayed.run_once("relay", work)
    assert [job.attempts for job in relayed.peek()] == [1]
