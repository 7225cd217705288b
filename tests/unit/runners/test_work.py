"""A handler does its work while it is called; what would only look like that is told apart."""

from __future__ import annotations

import asyncio
import functools
import gc
import warnings
from collections.abc import AsyncIterator, Generator, Iterator
from typing import Any, cast
from unittest import mock

import pytest

from alkstore import InvalidOption, JobHandle
from alkstore._typing import override
from alkstore.runners.attempt import Outcome, attempt
from alkstore.runners.work import check_work


async def coroutine_function(_: object) -> None:
    raise AssertionError


def generator_function(_: object) -> Iterator[int]:
    yield 1
    raise AssertionError


async def async_generator_function(_: object) -> AsyncIterator[int]:
    yield 1
    raise AssertionError


class Methods:
    async def run(self, _: object) -> None:
        raise AssertionError

    @classmethod
    async def of_class(cls, _: object) -> None:
        raise AssertionError

    @staticmethod
    async def of_none(_: object) -> None:
        raise AssertionError


class AsyncCallable:
    async def __call__(self, _: object) -> None:
        raise AssertionError


class GeneratorCallable:
    def __call__(self, _: object) -> Iterator[int]:
        yield 1


@pytest.mark.parametrize(
    ("work", "sort"),
    [
        (coroutine_function, "a coroutine function"),
        (generator_function, "a generator function"),
        (async_generator_function, "an async generator function"),
        (Methods().run, "a coroutine function"),
        (Methods.of_class, "a coroutine function"),
        (Methods().of_none, "a coroutine function"),
        (AsyncCallable(), "a coroutine function"),
        (GeneratorCallable(), "a generator function"),
        (functools.partial(coroutine_function), "a coroutine function"),
        (functools.partial(functools.partial(generator_function)), "a generator function"),
        (functools.partial(Methods().run), "a coroutine function"),
        (functools.partial(AsyncCallable()), "a coroutine function"),
        (mock.AsyncMock(), "a coroutine function"),
    ],
)
def test_what_does_nothing_when_it_is_called_is_refused(work: object, sort: str) -> None:
    with pytest.raises(InvalidOption, match=f"{sort}.* plain function") as refused:
        check_work(work, "handler")
    assert str(refused.value).startswith("the handler must do its work while it is called")


class PlainCallable:
    def __call__(self, _: object) -> None: ...


@functools.wraps(coroutine_function)
def runs_it(handle: object) -> None:
    asyncio.run(coroutine_function(handle))


@pytest.mark.parametrize(
    "work",
    [
        print,
        lambda _: None,
        PlainCallable(),
        PlainCallable,
        AsyncCallable,
        functools.partial(print, "x"),
        [].append,
        mock.Mock(),
        mock.MagicMock(),
        runs_it,
    ],
)
def test_what_does_its_work_is_taken(work: object) -> None:
    check_work(work, "handler")


@pytest.mark.parametrize("work", [None, 5, "send", [print]])
def test_what_cannot_be_called_is_refused(work: object) -> None:
    with pytest.raises(InvalidOption, match="the delivery must be callable, not a"):
        check_work(work, "delivery")


class Handle:
    """As much of a handle as an attempt looks at."""

    settled = False


def outcome(returned: object) -> Outcome:
    return attempt(lambda _: returned, cast("JobHandle", Handle()))


class Promise:
    """An awaitable of somebody's own."""

    def __await__(self) -> Iterator[Any]:
        raise AssertionError


class Proxy:
    """Has every special method, and its target's class, as some frameworks' proxies do."""

    def __init__(self, target: object) -> None:
        self._target = target

    @property  # type: ignore[misc]
    @override
    def __class__(self) -> type:
        if self._target is NOTHING:
            raise RuntimeError
        return type(self._target)

    def __await__(self) -> Iterator[Any]:
        raise AssertionError


NOTHING = object()


@pytest.mark.parametrize(
    ("make", "name"),
    [
        (lambda: coroutine_function(1), "coroutine"),
        (lambda: generator_function(1), "generator"),
        (lambda: async_generator_function(1), "async_generator"),
        (Promise, "Promise"),
        (lambda: Proxy(Promise()), "Proxy"),
    ],
)
def test_a_call_that_only_returned_what_is_to_be_run_is_a_failed_attempt(
    make: Any, name: str
) -> None:
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        told = outcome(make())
        assert (told.kind, type(told.raised)) == ("retry", TypeError)
        assert told.error.startswith(f"the call returned a {name} object, which nothing runs")
        del told
        gc.collect()
    assert [str(warning.message) for warning in warned] == []


def test_a_coroutine_that_will_not_be_closed_changes_nothing() -> None:
    async def stubborn() -> None:
        try:
            await Yielding()
        finally:
            raise OSError

    coroutine = stubborn()
    coroutine.send(None)
    assert outcome(coroutine).error.startswith("the call returned a coroutine object")


class Yielding:
    def __await__(self) -> Generator[None, None, None]:
        yield


@pytest.mark.parametrize(
    "returned",
    [
        None, 5, "text", [1], iter([1]), {}, object(), print, coroutine_function,
        mock.MagicMock(),
    ],
)  # fmt: skip
def test_anything_else_that_is_returned_acknowledges(returned: object) -> None:
    assert outcome(returned).kind == "ack"


def test_a_proxy_of_anything_else_acknowledges_too() -> None:
    assert outcome(Proxy(5)).kind == "ack"
    assert outcome(Proxy(NOTHING)).kind == "ack"


def test_what_was_settled_stays_so() -> None:
    def work(handle: JobHandle) -> object:
        cast("Handle", handle).settled = True
        return generator_function(handle)

    told = attempt(work, cast("JobHandle", Handle()))
    assert (told.kind, type(told.raised)) == ("settled", TypeError)
