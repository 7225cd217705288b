"""Uses of the memory engine that every type checker must accept. Checked, never run."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

from typing_extensions import assert_type

from alkstore import Codec, JsonCodec, Store
from alkstore.memory import (
    Clock,
    ManualClock,
    MemoryData,
    MemoryOptions,
    MemoryStore,
    MemoryTransaction,
    SystemClock,
)
from alkstore.memory.data import DeadRow, JobRow, LockRow, ScheduleRow
from alkstore.memory.wakes import Wakes
from alkstore.stop_token import Wakeable

NOON = datetime(2030, 1, 1, 12, tzinfo=timezone.utc)


def making_stores(data: MemoryData) -> list[Store]:
    """Everything may be left out."""
    options: MemoryOptions = {
        "clock": None,
        "codec": JsonCodec(),
        "max_payload_bytes": 1_000,
        "data": data,
    }
    assert_type(options["codec"], Codec | None)
    assert_type(options["clock"], Clock | None)
    assert_type(options["max_payload_bytes"], int | None)
    assert_type(options["data"], MemoryData | None)
    return [
        MemoryStore(**options),
        MemoryStore(),
        MemoryStore(clock=ManualClock(NOON), codec=JsonCodec(), max_payload_bytes=1_000),
        MemoryStore(clock=SystemClock()),
        MemoryStore(data=data),
    ]


def a_store_in_memory(store: MemoryStore) -> None:
    """It shows its tables, and lends transactions of its own kind."""
    assert_type(store.sibling(), MemoryStore)
    assert_type(store.data, MemoryData)
    assert_type(store.clock, Clock)
    assert_type(store.tick(), int)
    assert_type(store.closed, bool)
    with store as same:
        assert_type(same, MemoryStore)
    with store.transaction() as tx:
        assert_type(tx, MemoryTransaction)
        store.enqueue_tx(tx, "mail", 1)


def clocks() -> list[Clock]:
    """One goes on by itself, one is stepped."""
    return [SystemClock(), ManualClock(), ManualClock(start=NOON)]


def reading_a_clock(clock: Clock, waiter: Wakeable) -> None:
    """What the store asks of it."""
    assert_type(clock.now(), datetime)
    assert_type(clock.nap(1.5), float | None)
    clock.attach(waiter)
    clock.detach(waiter)


def stepping_a_clock(manual: ManualClock, system: SystemClock) -> None:
    """Forward only."""
    assert_type(manual.advance(60), datetime)
    assert_type(manual.advance(by=timedelta(days=1)), datetime)
    assert_type(manual.now(), datetime)
    assert_type(system.now(), datetime)


class HalfSpeed:
    """A clock needs no base class."""

    def now(self) -> datetime:
        """Return the present instant."""
        return NOON + (datetime.now(timezone.utc) - NOON) / 2

    def nap(self, length: float) -> float:
        """Return how long it takes here."""
        return 2 * length

    def attach(self, waiter: Wakeable) -> None:
        """Do nothing."""

    def detach(self, waiter: Wakeable) -> None:
        """Do nothing."""


def a_clock_of_the_application() -> MemoryStore:
    """Any object with these four."""
    return MemoryStore(clock=HalfSpeed())


def tables(data: MemoryData, job: JobRow) -> None:
    """A test may damage a row by hand."""
    with data.lock:
        data.schedules["report"].spec = "@hourly"
    assert_type(MemoryData(SystemClock()), MemoryData)
    assert_type(data.clock, Clock)
    assert_type(data.jobs, dict[int, JobRow])
    assert_type(data.dead, dict[int, DeadRow])
    assert_type(data.locks, dict[str, LockRow])
    assert_type(data.schedules, dict[str, ScheduleRow])
    assert_type(data.wakes, Wakes)
    assert_type(data.new_job_id(), int)
    assert_type(data.new_claim_id(), int)
    data.bury(job, "no", NOON)


def transactions(tx: MemoryTransaction, data: MemoryData, job: JobRow) -> None:
    """What is written in one comes with the commit."""
    assert_type(MemoryTransaction(data), MemoryTransaction)
    assert_type(tx.data, MemoryData)
    tx.add_job(job)
    tx.add_wake("news")
    assert_type(tx.has_ended, bool)
    tx.commit()
    tx.rollback()
