"""Uses of what is for tests that every type checker must accept. Checked, never run."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from datetime import datetime, timedelta
from typing import Literal
from unittest.mock import ANY

import pytest
from typing_extensions import assert_type, override

from alkstore import Codec, DeadJob, Job, JobHandle, Outbox, Queue, Schedule, Store
from alkstore.memory import ManualClock, MemoryData, MemoryStore
from alkstore.testing import (
    DamagesSchedules,
    Drained,
    EngineHarness,
    HandlesLeases,
    Ran,
    assert_dead,
    assert_enqueued,
    assert_not_enqueued,
    assert_scheduled,
    deliver_all,
    drain,
    fire_due,
)
from alkstore.testing.contract import (
    BoundariesContract,
    ClaimsContract,
    ClosingContract,
    Contract,
    DeadLettersContract,
    EngineContract,
    GoingClockContract,
    LeaderContract,
    LocksContract,
    NamesContract,
    OptionsContract,
    OutboxContract,
    PayloadsContract,
    QueuesContract,
    RegistrationContract,
    RunnersContract,
    SettlingContract,
    StopTokensContract,
    TransactionsContract,
    WaitingContract,
    WakesContract,
)


def looking_into_queues(queue: Queue, outbox: Outbox) -> None:
    """A queue or an outbox; what is found is returned."""
    assert_type(assert_enqueued(queue), list[Job])
    assert_type(assert_enqueued(queue, {"to": ANY}, count=1, priority=5), list[Job])
    assert_type(assert_enqueued(outbox, None, schedule="report"), list[Job])
    assert_not_enqueued(queue)
    assert_not_enqueued(outbox, {"to": 1}, priority=5)
    assert_type(assert_dead(queue), list[DeadJob])
    assert_type(assert_dead(outbox, 1, error="refused", count=2, attempts=5), list[DeadJob])


def looking_at_schedules(store: Store) -> None:
    """By name."""
    assert_type(assert_scheduled(store, "report"), Schedule)
    assert_type(assert_scheduled(store, "report", {"kind": "daily"}, spec="@every 1h"), Schedule)


def work(handle: JobHandle) -> None:
    """Work."""
    handle.heartbeat()


def running_in_place(store: Store) -> None:
    """A queue by a handler, an outbox by a delivery."""
    assert_type(drain(store, "mail", work), Drained)
    assert_type(drain(store, "mail", print, raising=True, limit=5), Drained)
    assert_type(deliver_all(store, "events", work), Drained)
    assert_type(deliver_all(store, "events", print, raising=True, limit=5), Drained)


def what_was_done(drained: Drained, ran: Ran) -> None:
    """Each attempt, and sums."""
    assert_type(len(drained), int)
    assert_type(drained.runs, list[Ran])
    assert_type(drained.acked, list[int])
    assert_type(drained.retried, list[int])
    assert_type(drained.dead, list[int])
    assert_type(drained.errors, list[BaseException])
    assert_type(ran.id, int)
    assert_type(ran.attempt, int)
    assert_type(ran.fate, Literal["acked", "retried", "dead", "released", "gone"])
    assert_type(ran.raised, BaseException | None)


def stepping_time(store: Store) -> None:
    """What is due now, or within a while."""
    assert_type(fire_due(store), int)
    assert_type(fire_due(store, by=60), int)
    assert_type(fire_due(store, by=timedelta(hours=1)), int)


def test_with_the_fixtures(alkstore_memory: MemoryStore, alkstore_clock: ManualClock) -> None:
    """The plugin's fixtures."""
    alkstore_clock.advance(60)
    assert_enqueued(alkstore_memory.queue("mail"))


class Harness:
    """A harness needs no base class, and its stores may be of their own kind."""

    def __init__(self) -> None:
        self._clock = ManualClock()
        self._data = MemoryData(self._clock)
        self._closing = ExitStack()

    def open(
        self, *, codec: Codec | None = None, max_payload_bytes: int | None = None
    ) -> MemoryStore:
        """Open a store."""
        store = MemoryStore(codec=codec, max_payload_bytes=max_payload_bytes, data=self._data)
        return self._closing.enter_context(store)

    def now(self) -> datetime:
        """Return the store clock."""
        return self._clock.now()

    def advance(self, seconds: float) -> None:
        """Let time pass."""
        self._clock.advance(seconds)

    def tick(self, store: Store) -> int:
        """Fire what is due."""
        assert isinstance(store, MemoryStore)
        return store.tick()

    def close(self) -> None:
        """Close the stores."""
        self._closing.close()

    def damage_schedule(self, name: str) -> None:
        """Give a schedule a spec that means nothing."""
        self._data.schedules[name].spec = "never"

    def lease_owner(self, name: str) -> str | None:
        """Return who holds a lease."""
        return self._data.locks[name].owner

    def take_lease(self, name: str) -> None:
        """Give a lease to somebody else."""
        self._data.locks[name].owner = "thief"


def hands_on_an_engine(
    harness: EngineHarness, damaging: DamagesSchedules, leases: HandlesLeases, codec: Codec
) -> None:
    """What the suite asks of an engine's author."""
    store = harness.open()
    assert_type(store, Store)
    assert_type(harness.open(codec=codec, max_payload_bytes=1_000), Store)
    assert_type(harness.now(), datetime)
    harness.advance(60)
    harness.advance(0.5)
    assert_type(harness.tick(store), int)
    harness.close()
    damaging.damage_schedule("report")
    assert_type(leases.lease_owner("door"), str | None)
    leases.take_lease("door")


def a_harness_with_all_hands() -> tuple[EngineHarness, DamagesSchedules, HandlesLeases]:
    """One object may be all three."""
    return Harness(), Harness(), Harness()


class AnEngine(EngineContract):
    """The whole suite, by one fixture."""

    @pytest.fixture
    @override
    def engine(self) -> Iterator[EngineHarness]:
        """Return a fresh harness."""
        harness = Harness()
        yield harness
        harness.close()


class AGrowingEngine(QueuesContract, ClaimsContract):
    """Some parts of it."""

    @pytest.fixture
    @override
    def engine(self) -> Iterator[EngineHarness]:
        """Return a fresh harness."""
        harness = Harness()
        yield harness
        harness.close()


def parts() -> list[type[Contract]]:
    """All of them."""
    return [
        *(BoundariesContract, ClaimsContract, ClosingContract, DeadLettersContract),
        *(EngineContract, GoingClockContract, LeaderContract, LocksContract, NamesContract),
        *(OptionsContract, OutboxContract, PayloadsContract, QueuesContract),
        *(RegistrationContract, RunnersContract, SettlingContract, StopTokensContract),
        *(TransactionsContract, WaitingContract, WakesContract),
    ]
