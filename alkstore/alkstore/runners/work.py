"""What may be a handler or a delivery: a callable that does its work while it is called.

A coroutine function does nothing when it is called, nor does a generator function: the job would be
acknowledged without having run. Such a callable is refused before anything starts, and where
it cannot be told beforehand, what the call returned tells.
"""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Generator
from functools import partial
from typing import Final

from alkstore.errors import InvalidOption
from alkstore.traits import JobHandle

Work = Callable[[JobHandle], object]
"""A handler or a delivery."""

_UNFINISHED: Final[tuple[tuple[Callable[[object], bool], str], ...]] = (
    (inspect.iscoroutinefunction, "a coroutine function (async def)"),
    (inspect.isasyncgenfunction, "an async generator function"),
    (inspect.isgeneratorfunction, "a generator function (it has a yield)"),
)


def check_work(work: object, kind: str) -> None:
    """Refuse what cannot be called, and what does nothing when it is called.

    A `functools.partial`, a method and an object with ``__call__`` are looked through.

    Args:
        work: What the caller gave.
        kind: ``"handler"`` or ``"delivery"``, for the message.

    Raises:
        InvalidOption: *work* is no callable, or a coroutine function, an async generator
            function or a generator function.
    """
    if not callable(work):
        msg = f"the {kind} must be callable, not a {type(work).__name__}"
        raise InvalidOption(msg)
    while isinstance(work, partial):
        work = work.func
    for of_this_sort, sort in _UNFINISHED:
        if of_this_sort(work) or of_this_sort(type(work).__call__):
            msg = (
                f"the {kind} must do its work while it is called, and {sort} does nothing then: "
                "give a plain function, which may call asyncio.run() inside"
            )
            raise InvalidOption(msg)


def call(work: Work, handle: JobHandle) -> None:
    """Call *work* with *handle*.

    Args:
        work: A handler or a delivery.
        handle: The claim.

    Raises:
        TypeError: It returned something that is still to be run (a coroutine, another awaitable,
            or a generator): the work was not done. A coroutine is closed.
    """
    result = work(handle)
    if result is None or not _is_still_to_be_run(result):
        return
    if isinstance(result, Coroutine):
        # Otherwise Python warns, somewhere and later, that it was never awaited.
        with contextlib.suppress(Exception):
            result.close()
    msg = (
        f"the call returned a {type(result).__name__} object, which nothing runs, so the work was "
        "not done: run it before returning, with asyncio.run() for one"
    )
    raise TypeError(msg)


def _is_still_to_be_run(result: object) -> bool:
    """Return whether *result* is an awaitable or a generator.

    A proxy (werkzeug's for one) has every special method, whatever it stands for. It tells
    the class of that as its own; a proxy that stands for nothing cannot even tell that.
    """
    kinds = (Awaitable, Generator, AsyncGenerator)
    try:
        return issubclass(type(result), kinds) and issubclass(result.__class__, kinds)
    except Exception:  # noqa: BLE001 - whatever a proxy raises
        return False
