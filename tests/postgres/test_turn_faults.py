"""An exception of any kind, at any statement of a turn of any runner: it goes on.

Field case B08. The worker has the same test beside its others
(`runners/test_worker_faults.py`), the tick of the scheduler, statement by statement, in
`tests/races/scheduler/test_tick_faults.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import psycopg_pool
import pytest

from alkstore.names import SCHEDULER_LOCK
from alkstore.traits import JobHandle
from alkstore_postgres import PostgresStore
from alkstore_postgres.lock.leases import Lease
from alkstore_postgres.wakes.line import Line
from tests.support.faults import Faults
from tests.support.schedules import ScheduleTable
from tests.support.waiting import wait_until

FAULTS = [
    (psycopg.OperationalError, False),
    (psycopg.OperationalError, True),
    (psycopg.errors.UndefinedFunction, False),
    (psycopg_pool.PoolTimeout, False),
    (KeyError, False),
    (MemoryError, True),
    (SystemExit, False),
    (KeyboardInterrupt, True),
    (GeneratorExit, False),
]
"""What is raised, and whether that is instead of the statement or after it has run."""

every_kind = pytest.mark.parametrize(("error", "afterwards"), FAULTS)


@pytest.fixture
def faults(monkeypatch: pytest.MonkeyPatch) -> Iterator[Faults]:
    """The faults of this test."""
    faults = Faults(monkeypatch)
    yield faults
    faults.end()


@every_kind
def test_a_relay(
    store: PostgresStore, faults: Faults, error: type[BaseException], afterwards: bool
) -> None:
    outbox = store.outbox("events")
    for number in range(1, 7):
        got: list[Any] = []
        failing = {"fails once"}

        def deliver(message: JobHandle, got: list[Any] = got, failing: set[str] = failing) -> None:
            if message.payload in failing:
                failing.discard(message.payload)
                raise ValueError("no")
            got.append(message.payload)

        for payload in ("good", "fails once", "last"):
            outbox.enqueue(payload)
        faults.seen.clear()
        raised = error("injected")
        faults.at(number, raised, afterwards=afterwards)
        relay = store.start_outbox("events", deliver)
        wait_until(lambda: relay.last_error is not None)  # noqa: B023 - called here only
        # A claim whose answer was lost comes back after its visibility timeout: a minute.
        wait_until(lambda got=got: "good" in got or "last" in got)  # type: ignore[misc]
        wait_until(lambda: relay.state == "working")  # noqa: B023
        assert raised in (relay.last_error, getattr(relay.last_error, "__cause__", None))
        assert relay.health().details["failures"] == 1
        assert relay.health().healthy
        assert relay.stop(5)
        faults.end()
        _empty(store)


def _empty(store: PostgresStore) -> None:
    with store.transaction() as connection:
        connection.execute(f'DELETE FROM "{store._parts.database.schema}".jobs'.encode())


@every_kind
def test_a_leader(
    store: PostgresStore,
    connection: psycopg.Connection[Any],
    schema: str,
    *,
    faults: Faults,
    error: type[BaseException],
    afterwards: bool,
) -> None:
    table = ScheduleTable(connection, schema)
    store.schedule("report", "@every 1h", "reports", None)
    raised_in_all = 0
    for number in range(1, 8):
        table.shift("report", -1)
        faults.seen.clear()
        raised = error("injected")
        faults.at(number, raised, afterwards=afterwards)
        scheduler = store.start_scheduler()
        wait_until(lambda: store.queue("reports").size() == 1, 20)
        wait_until(lambda: scheduler.state == "leading", 20)  # noqa: B023 - called here only
        assert scheduler.health().healthy
        raised_in_all += len(faults.seen) >= number
        assert scheduler.stop(5)
        faults.end()
        _empty(store)
        connection.execute(f'DELETE FROM "{schema}".locks'.encode())
    assert raised_in_all >= 3


@every_kind
def test_a_standby(
    store: PostgresStore, faults: Faults, error: type[BaseException], afterwards: bool
) -> None:
    leases = store._parts.leases
    held = leases.acquire(SCHEDULER_LOCK, "another", 600)
    assert isinstance(held, Lease)
    for number in (1, 2):
        faults.seen.clear()
        raised = error("injected")
        faults.at(number, raised, afterwards=afterwards)
        scheduler = store.start_scheduler()
        wait_until(lambda: scheduler.state == "standby")  # noqa: B023 - called here only
        store._parts.hub.wake_here(SCHEDULER_LOCK)  # it looks again
        wait_until(lambda: len(faults.seen) >= number)  # noqa: B023
        wait_until(lambda: scheduler.state == "standby")  # noqa: B023
        assert scheduler.health().healthy
        if number == 1:
            assert scheduler.stop(5)
    assert leases.release(held)
    # Where the failing statement came after that, it has taken the lease, which then has to lapse.
    wait_until(lambda: scheduler.state == "leading", 15)


@pytest.mark.parametrize("call", ["_send", "read"])
@pytest.mark.parametrize(
    "error",
    [psycopg.OperationalError, OSError, KeyError, MemoryError, SystemExit, GeneratorExit],
)
def test_a_listener(
    store: PostgresStore,
    monkeypatch: pytest.MonkeyPatch,
    call: str,
    error: type[BaseException],
) -> None:
    hub = store._parts.hub
    heard: list[str] = []
    counts = {"calls": 0, "fail at": 0}
    real: Callable[..., Any] = getattr(Line, call)

    def faulty(line: Line, *args: Any) -> Any:
        counts["calls"] += 1
        if counts["calls"] == counts["fail at"]:
            raise error("injected")
        return real(line, *args)

    monkeypatch.setattr(Line, call, faulty)
    hub._heartbeat = 0.2
    hub.attach("x", heard.append)
    for number in range(1, 5):
        counts["fail at"] = counts["calls"] + number
        # Probes are sent in every quiet moment, so that each call comes.
        wait_until(lambda: counts["calls"] > counts["fail at"])
        wait_until(lambda: hub.state == "listening")
        before = len(heard)
        store.notify("x")
        wait_until(lambda: len(heard) > before)  # noqa: B023 - called here only
