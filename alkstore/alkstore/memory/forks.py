"""What a fork has to know of: objects that begin anew in the child."""

from __future__ import annotations

import itertools
import weakref
from typing import Generic, TypeVar

T = TypeVar("T")


class Alive(Generic[T]):
    """The living objects of a kind, held weakly, in the order in which they came.

    Each operation is a single one of a dict's, so that it may run in any thread, and in the
    hooks of a fork, at any time.
    """

    def __init__(self) -> None:
        self._all: weakref.WeakValueDictionary[int, T] = weakref.WeakValueDictionary()
        self._numbers = itertools.count()

    def add(self, one: T) -> None:
        """Know of *one* for as long as somebody else does."""
        self._all[next(self._numbers)] = one

    def all(self) -> list[T]:
        """Return those that live, the oldest first."""
        return [one for reference in self._all.valuerefs() if (one := reference()) is not None]
