"""A signal is heard although it was noted just before the main thread fell asleep.

Whatever blocking call of the engine that thread sleeps in (contract section 10); field case B88.
What these sleeps send meanwhile is counted, too: nothing.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

import alkstore_postgres
from alkstore import LockTimeout, StopToken, Store
from alkstore.stop_token import SLICE
from alkstore_postgres import PostgresStore
from tests.support.sql_probe import SqlProbe
from tests.support.timing import in_time
from tests.support.unheard_signals import HEARD, until_heard

LONG = 30.0


def listen(store: Store, timeout: float | None, stop: StopToken | None) -> None:
    with store.listen("emails") as listener:
        listener.wait(timeout, stop)


def claim(store: Store, timeout: float | None, stop: StopToken | None) -> None:
    store.queue("emails").claim_wait("w", timeout=timeout, stop=stop)


def lock(store: Store, timeout: float | None, stop: StopToken | None) -> None:
    with store.lock("held", LONG), pytest.raises(LockTimeout):
        store.lock("held", LONG, timeout, stop)


def schedule(store: Store, _timeout: float | None, stop: StopToken | None) -> None:
    assert stop is not None
    store.run_schedules(stop)


def relay(store: Store, _timeout: float | None, stop: StopToken | None) -> None:
    assert stop is not None
    store.outbox("events").run("w", print, stop)


Call = Callable[[Store, "float | None", "StopToken | None"], None]


@pytest.mark.parametrize("call", [listen, claim, lock, schedule, relay])
def test_each_blocking_call_hears_it(store: PostgresStore, call: Call) -> None:
    store.notify("anything")  # the listener is up, or on its way

    def attempt() -> float:
        stop = StopToken()
        return until_heard(lambda: call(store, LONG, stop), stop.cancel)

    in_time(attempt, HEARD)


@pytest.mark.parametrize("slices", [0.5, 3.5], ids=["in one go", "in slices"])
@pytest.mark.parametrize(
    ("call", "statements"),
    [
        (listen, 0),
        (claim, 2),  # before the sleep and after it
        (lock, 5),  # taken; asked for at once, and before the sleep and after it; released
    ],
)
def test_a_sleep_of_the_main_thread_sends_nothing(
    store: PostgresStore,
    schema: str,
    sql_probe: SqlProbe,
    *,
    call: Call,
    statements: int,
    slices: float,
) -> None:
    """Field case B79: however often it looks up, nobody is asked."""
    with alkstore_postgres.open(sql_probe.conninfo, schema, migrate=False) as watched:
        for _ in range(2):  # what a connection is asked once, when it first prepares, is behind it
            watched.queue("emails").size()
        watched._parts.hub.attach("x", lambda _name: None)
        assert watched._parts.hub.settle(5)
        with sql_probe.watching() as traffic:
            call(watched, slices * SLICE, None)
            sent = [one for one in traffic.statements if "LISTEN" not in one.upper()]
    assert len(sent) == statements, sent
