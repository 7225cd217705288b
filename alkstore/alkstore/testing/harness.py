"""The harness: what the contract suite, and a model of an engine, ask of whoever runs them."""

from __future__ import annotations

from datetime import datetime
from typing import Protocol, runtime_checkable

from alkstore.codec import Codec
from alkstore.traits import Store


class EngineHarness(Protocol):
    """One set of data of an engine, and the hands on its clock.

    A test gets a fresh one. The store clock may stand still between two calls of `advance` or
    go on by itself: the suite only compares stored times with what `now` said before and
    after.
    """

    def open(self, *, codec: Codec | None = None, max_payload_bytes: int | None = None) -> Store:
        """Open a store on the data of this harness.

        Each call stands for another process: what one store does, the others see. They share
        no object that the application could reach.

        Args:
            codec: The store's codec; ``None``: the default.
            max_payload_bytes: The store's limit; ``None``: the default.
        """
        ...

    def now(self) -> datetime:
        """Return the store clock, aware."""
        ...

    def advance(self, seconds: float) -> None:
        """Let so many seconds pass on the store clock.

        Whoever waits in a store may learn of it at once, or when it looks again by itself: the
        suite waits for either.
        """
        ...

    def tick(self, store: Store) -> int:
        """Fire what is due, as one tick without any lease; return how many jobs were fired."""
        ...

    def close(self) -> None:
        """Close what is open, and forget the data."""
        ...


@runtime_checkable
class DamagesSchedules(Protocol):
    """A harness that can damage stored schedules, as a hand in the database would."""

    def damage_schedule(self, name: str) -> None:
        """Make the stored schedule *name* such that it cannot be fired."""
        ...


@runtime_checkable
class HandlesLeases(Protocol):
    """A harness that reads stored leases and takes one away, as a hand in the database would.

    The scheduler's lease is the lock ``__alkstore_scheduler``, which no call of a store reaches.
    """

    def lease_owner(self, name: str) -> str | None:
        """Return the owner token of the stored lease *name*; ``None``: nobody holds it."""
        ...

    def take_lease(self, name: str) -> None:
        """Give the stored lease *name* to nobody in particular, for long, and wake nobody."""
        ...
