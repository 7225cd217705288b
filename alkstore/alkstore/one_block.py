"""A block that is entered once, and says so."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import wraps
from types import TracebackType
from typing import Generic, ParamSpec, TypeVar

from alkstore._typing import override
from alkstore.errors import NoTransaction

T = TypeVar("T")
P = ParamSpec("P")


class OneBlock(AbstractContextManager[T], Generic[T]):
    """The block of one transaction.

    Args:
        block: What `contextlib.contextmanager` has made, not entered. Entered again, that one
            ends with an `AttributeError` of its own attributes.
    """

    def __init__(self, block: AbstractContextManager[T]) -> None:
        self._block = block
        self._entered = False

    @override
    def __enter__(self) -> T:
        """Begin the transaction.

        Raises:
            NoTransaction: It was begun before, whether it has ended or not.
        """
        if self._entered:
            msg = "this transaction() was entered before: each block takes a call of its own"
            raise NoTransaction(msg)
        self._entered = True
        return self._block.__enter__()

    @override
    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> bool | None:
        """End the transaction."""
        return self._block.__exit__(exc_type, exc, traceback)


def one_block(make: Callable[P, Iterator[T]]) -> Callable[P, AbstractContextManager[T]]:
    """Make a block of a generator function, as `contextlib.contextmanager` does."""
    managed = contextmanager(make)

    @wraps(make)
    def call(*args: P.args, **kwargs: P.kwargs) -> AbstractContextManager[T]:
        return OneBlock(managed(*args, **kwargs))

    return call
