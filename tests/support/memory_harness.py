"""The memory engine with hands on its clock."""

from __future__ import annotations

from contextlib import ExitStack
from datetime import datetime, timedelta, timezone

from alkstore._typing import override
from alkstore.codec import Codec
from alkstore.memory import ManualClock, MemoryData, MemoryStore
from alkstore.stop_token import Wakeable
from alkstore.traits import Store

_ORIGIN = datetime(2000, 1, 1, tzinfo=timezone.utc)
_FOR_LONG = timedelta(days=365)


class GoingClock(ManualClock):
    """A clock that goes on by itself, ahead of the machine's by what it was stepped."""

    @override
    def now(self) -> datetime:
        """Return the present time, and all steps on top of it."""
        return datetime.now(timezone.utc) + (super().now() - _ORIGIN)

    @override
    def nap(self, length: float) -> float | None:
        """Return *length*."""
        return length


class UnheardClock(GoingClock):
    """A clock that goes on by itself, and whose steps wake nobody."""

    @override
    def attach(self, waiter: Wakeable) -> None:
        """Do nothing."""

    @override
    def detach(self, waiter: Wakeable) -> None:
        """Do nothing."""


class MemoryHarness:
    """An `alkstore.testing.EngineHarness` of the memory engine: tables of its own.

    Args:
        frozen: Let the clock stand still between two calls of `advance`.
        start: Where a frozen clock starts; ``None``: the present time.
        heard: Let the steps of a clock that goes on wake whoever waits.
    """

    def __init__(
        self, *, frozen: bool = True, start: datetime | None = None, heard: bool = True
    ) -> None:
        if frozen:
            self._clock = ManualClock(start)
        else:
            self._clock = GoingClock(_ORIGIN) if heard else UnheardClock(_ORIGIN)
        self._data = MemoryData(self._clock)
        self._closing = ExitStack()

    def open(
        self, *, codec: Codec | None = None, max_payload_bytes: int | None = None
    ) -> MemoryStore:
        """Open a store on these tables; it is closed with the harness."""
        store = MemoryStore(codec=codec, max_payload_bytes=max_payload_bytes, data=self._data)
        return self._closing.enter_context(store)

    def now(self) -> datetime:
        """Return where the clock stands."""
        return self._clock.now()

    def advance(self, seconds: float) -> None:
        """Step the clock, which tells everybody who waits, unless it is one that is not heard."""
        self._clock.advance(seconds)

    def tick(self, store: Store) -> int:
        """Fire what is due; return how many jobs were fired."""
        assert isinstance(store, MemoryStore)
        return store.tick()

    def damage_schedule(self, name: str) -> None:
        """Give a schedule a spec that means nothing."""
        self._data.schedules[name].spec = "never"

    def lease_owner(self, name: str) -> str | None:
        """Return who holds a lease."""
        row = self._data.locks.get(name)
        return None if row is None else row.owner

    def take_lease(self, name: str) -> None:
        """Give a lease to somebody else."""
        with self._data.lock:
            row = self._data.locks[name]
            row.owner, row.token = "thief", row.token + 1
            row.expires_at = self.now() + _FOR_LONG

    def close(self) -> None:
        """Close the stores."""
        self._closing.close()
