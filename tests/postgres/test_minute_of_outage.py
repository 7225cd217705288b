"""The database is away for a whole minute, and everything of an application is in one process.

The user's story: a failover takes its time, or somebody else has taken every connection. Nobody
restarts the application. Nothing hammers on the server meanwhile, so that it can come up; the
log has a line for each change, so that it can be read the next morning; and five seconds after the
database is back everything goes on.

Field cases B07, B33, B69, B83, B87. `ALKSTORE_OUTAGE_SECONDS` has no say here.
"""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest

import alkstore_postgres
from alkstore.traits import JobHandle, Listener, LockHandle, Runner
from alkstore_postgres import PostgresStore
from alkstore_postgres.embedded import EmbeddedServer
from tests.support.outage import BACK, Attempts, Fault, away, full
from tests.support.timing import Stopwatch
from tests.support.waiting import wait_until

MINUTE = 60.0

KEPT = 150.0
"""The TTL of a lock, in seconds, that outlives the minute although a renewal falls in it."""

SHORT = 6.0
"""The TTL of a lock, in seconds, that does not."""

STATES = ["working", "working", "leading", "standby"]


@dataclass
class Application:
    """Everything at once: two stores, and what runs in them.

    Attributes:
        store: With a worker, a relay, the leader, and locks that are kept.
        other: With the standby.
        runners: Those four.
        listeners: One of each store.
        kept: A lock that lasts.
        short: A lock that is lost.
        got: What the worker and the relay were given.
    """

    store: PostgresStore
    other: PostgresStore
    runners: list[Runner]
    listeners: list[Listener]
    kept: LockHandle
    short: LockHandle
    got: list[Any] = field(default_factory=list)

    @property
    def well(self) -> bool:
        """Whether everything is as it should be."""
        states = [one.state for one in self.runners]
        hears = {one._parts.hub.state for one in (self.store, self.other)}
        # Who of the two leads after an outage longer than the lease is left to chance.
        return sorted(states) == sorted(STATES) and hears == {"listening"}

    @property
    def renewed(self) -> bool:
        """Whether the lock that lasts was renewed less than a BACK ago."""
        left = self.store._parts.leases.seconds_left("k")
        return left is not None and left > KEPT - BACK

    def failures(self) -> list[int]:
        """Return how often each runner has failed so far."""
        return [one.health().details["failures"] for one in self.runners]


@pytest.fixture
def attempts(monkeypatch: pytest.MonkeyPatch) -> Attempts:
    """Who tried to connect."""
    return Attempts(monkeypatch)


@pytest.fixture
def application(own_server: EmbeddedServer, attempts: Attempts) -> Iterator[Application]:
    """Return an application at work."""
    got: list[Any] = []

    def take(job: JobHandle) -> None:
        got.append(job.payload)

    with (
        alkstore_postgres.open(own_server.url) as store,
        alkstore_postgres.open(own_server.url) as other,
        store.listen("hello") as one,
        other.listen("hello") as two,
    ):
        runners: list[Runner] = [
            store.start_worker("emails", take, 2),
            store.start_outbox("events", take),
            store.start_scheduler(),
        ]
        wait_until(lambda: runners[2].state == "leading")
        runners.append(other.start_scheduler())
        # At most 64 boundaries are made up for: an outage of a minute is fewer of these.
        store.schedule("tick", "@every 2s", "emails", "tick")
        kept, short = (
            store.lock(name, ttl, keep_alive=True) for name, ttl in (("k", KEPT), ("s", SHORT))
        )
        application = Application(store, other, runners, [one, two], kept, short, got)
        wait_until(lambda: application.well and "tick" in got)
        yield application
        kept.release()


def told(caplog: pytest.LogCaptureFixture, name: str) -> Counter[str]:
    """Return what was logged under *name* and below, and how often.

    The pool's line for each connection that died is as it should be.
    """
    return Counter(
        one.getMessage()
        for one in caplog.records
        if one.name.startswith(name) and "discarding" not in one.getMessage()
    )


def count(lines: Counter[str], text: str) -> int:
    """Return how many of the lines hold *text*."""
    return sum(number for line, number in lines.items() if text in line)


@pytest.mark.slow
@pytest.mark.timeout(240)
@pytest.mark.parametrize("fault", [away, full])
def test_after_a_minute_everything_is_back_within_five_seconds_and_nothing_was_hammered_on(
    *,
    own_server: EmbeddedServer,
    application: Application,
    attempts: Attempts,
    caplog: pytest.LogCaptureFixture,
    fault: Fault,
    record_property: Callable[[str, object], None],
) -> None:
    caplog.set_level(logging.INFO)
    caplog.clear()
    before = application.failures()
    end = fault(own_server)
    attempts.reset()
    cpu = time.process_time()
    time.sleep(MINUTE)
    cpu = time.process_time() - cpu
    tried = {"listeners": attempts.listener, "pools": attempts.pool}
    failed = [now - was for now, was in zip(application.failures(), before, strict=True)]
    ours, drivers = told(caplog, "alkstore"), told(caplog, "psycopg")
    health = [one.health() for one in application.runners]
    caplog.clear()
    end()
    with Stopwatch() as watch:
        wait_until(lambda: application.well and application.renewed, 30)
    back = watch.seconds
    figures = (
        f"{fault.__name__} for {MINUTE:g} s: back after {back:.1f} s; tried to connect {tried}, "
        f"failed turns {failed}, {ours.total()} lines and {drivers.total()} of the driver, "
        f"{cpu:.1f} s of CPU"
    )
    print(figures)  # noqa: T201 - the figures of the run
    record_property("outage", figures)
    assert back < BACK

    # No hot loop: two listeners and two pools try about once a second at the most.
    assert tried["listeners"] <= 2 * MINUTE, figures
    assert tried["pools"] <= 2 * MINUTE, figures
    assert max(failed) <= MINUTE / 2, figures
    assert cpu < MINUTE / 10, figures

    # No flood: a line for each change, once more after a minute, and no other.
    assert 4 <= count(ours, "failed, trying again with backoff") <= 8, ours
    assert 2 <= count(ours, "the listener is not connected") <= 4, ours
    assert count(ours, "could not be renewed") == 2, ours
    assert count(ours, "was lost") == 1, ours
    assert ours.total() <= 8 + 4 + 2 + 2 + 1, ours
    assert drivers.total() <= 3, drivers

    # The runners have said what is wrong, and what was to be lost is lost.
    assert {one.state for one in health} == {"backing-off"}
    assert not any(one.healthy for one in health)
    assert application.short.lost
    assert not application.kept.lost

    # Everything goes on.
    application.store.queue("emails").enqueue("job")
    application.store.outbox("events").enqueue("message")
    wait_until(lambda: {"job", "message", "tick"} <= set(application.got), BACK)
    wait_until(lambda: all(one.health().healthy for one in application.runners), BACK)
    for listener in application.listeners:
        while listener.wait(0.5) is not None:
            pass  # everybody was woken when the listener came back
        application.store.notify("hello")
        assert listener.wait(BACK) is not None
    (schedule,) = application.store.schedules()
    assert schedule.skipped == 0
    assert count(told(caplog, "alkstore"), "works again after") == 4
    assert count(told(caplog, "alkstore"), "the listener is connected") == 2
