"""What every contestant can do; the same tasks are then measured on all of them."""

from __future__ import annotations

import sys
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any

if sys.version_info >= (3, 12):
    from typing import override
else:
    from typing_extensions import override

__all__ = ["Contestant", "Enqueue", "Handle", "override"]

Enqueue = Callable[[int], object]
"""Stores one job that carries a number, in a transaction of its own."""

Handle = Callable[[int], None]
"""Called with a job's number by whatever works on the queue."""


class Contestant(ABC):
    """One way to do background work on a database of its own.

    Args:
        url: The database.
        options: What variant of it, by name.

    Attributes:
        has_bulk: Whether it stores many jobs otherwise than one by one.
    """

    has_bulk = True

    def __init__(self, url: str, options: dict[str, Any]) -> None:
        self.url = url
        self.options = options

    @abstractmethod
    def setup(self) -> None:
        """Make the tables; called once for each database."""

    @abstractmethod
    def client(self) -> AbstractContextManager[Enqueue]:
        """Connect as a client that stores single jobs; used by one thread."""

    def enqueue_many(self, numbers: Sequence[int]) -> None:
        """Store many jobs, in the quickest way that its documentation shows: one by one here."""
        with self.client() as store_one:
            for number in numbers:
                store_one(number)

    @abstractmethod
    def work(self, handle: Handle, stop: threading.Event) -> None:
        """Work on the queue, one process, until *stop* is set."""

    def settled(self) -> None:  # noqa: B027 - most have nothing to wait for
        """Return when all that was handled is settled in the database."""

    def close(self) -> None:  # noqa: B027 - most hold nothing
        """Let go of what it holds."""
