"""What an idle runner costs the server: exact counts, over a minute that takes no time.

Field case B79: a database that may sleep is kept awake by what polls it. Each runner asks its
thread to sleep for so many seconds; here these seconds are added up and not slept, until they
are a minute, while everything that goes over the wire is counted. The listener, one for all
runners of a store, is counted by itself: `tests/postgres/wakes/test_listener_connection.py`.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable

import pytest

import alkstore_postgres
from alkstore.stop_token import Parker
from alkstore.traits import Runner
from alkstore_postgres import PostgresStore
from tests.support.sql_probe import SqlProbe
from tests.support.waiting import wait_until

MINUTE = 60.0


class FastMinute:
    """Lets a minute's worth of the sleeps of a function pass at once.

    Args:
        patch: Undoes it when the test is over.
        function: The name of the function that sleeps.
    """

    def __init__(self, patch: pytest.MonkeyPatch, function: str) -> None:
        self.slept = 0.0
        self.standing = threading.Event()
        self.running = threading.Event()
        self.over = threading.Event()
        park = Parker.park

        def passing(parker: Parker, timeout: float | None = None) -> bool:
            mine = sys._getframe(1).f_code.co_name == function
            if not mine or timeout is None or self.over.is_set():
                return park(parker, timeout)
            # Nothing is sent while the thread stands here.
            self.standing.set()
            assert self.running.wait(10)
            self.slept += timeout
            if self.slept > MINUTE + 0.001:
                self.over.set()
            return park(parker, 0.0 if self.slept <= MINUTE + 0.001 else timeout)

        patch.setattr(Parker, "park", passing)


def worker(store: PostgresStore) -> Runner:
    return store.start_worker("emails", print)


def relay(store: PostgresStore) -> Runner:
    return store.start_outbox("events", print)


def scheduler(store: PostgresStore) -> Runner:
    return store.start_scheduler()


@pytest.mark.parametrize(
    ("start", "sleeper", "state", "most"),
    [
        (worker, "claim_wait", "working", 12),
        (relay, "claim_wait", "working", 12),
        (scheduler, "_sleep", "leading", 35),
        (scheduler, "stand_by", "standby", 10),
    ],
    ids=["worker", "relay", "leader", "standby"],
)
def test_an_idle_runner_sends_few_statements_a_minute(
    store: PostgresStore,
    schema: str,
    sql_probe: SqlProbe,
    monkeypatch: pytest.MonkeyPatch,
    *,
    start: Callable[[PostgresStore], Runner],
    sleeper: str,
    state: str,
    most: int,
) -> None:
    store.schedule("rare", "@every 30d", "emails", None)
    if state == "standby":
        leader = store.start_scheduler()
        wait_until(lambda: leader.state == "leading")
    # One connection: each is asked something once, and which one is handed out is not for sure.
    with alkstore_postgres.open(
        sql_probe.conninfo, schema, migrate=False, min_size=1, max_size=1
    ) as watched:
        watched.queue("emails").size()
        watched._parts.hub.attach("x", lambda _name: None)
        assert watched._parts.hub.settle(5)
        minute = FastMinute(monkeypatch, sleeper)
        runner = start(watched)
        wait_until(lambda: runner.state == state)
        assert minute.standing.wait(10)
        with sql_probe.watching() as traffic:
            minute.running.set()
            assert minute.over.wait(10)
            sent = list(traffic.statements)
        assert runner.last_error is None
    assert 5 <= len(sent) <= most, "\n".join(statement[:80] for statement in sent)
