"""The scheduler's runner: it leads, or stands by and takes over."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from alkstore.errors import DatabaseError, LeadershipLost
from alkstore.runners import SchedulerRunner
from alkstore.runners.leader_watch import LeaderWatch
from alkstore.stop_token import StopToken
from tests.support.timing import Stopwatch
from tests.support.waiting import wait_until


class Lease:
    """A lease in memory: who leads, and the wake of its release."""

    def __init__(self) -> None:
        self.taken = threading.Lock()
        self.released = threading.Event()
        self.waits: list[float | None] = []
        self.errors: list[BaseException] = []
        self.ttl = 100.0
        self.watch: LeaderWatch | None = None

    def lead(self, stop: StopToken, watch: LeaderWatch) -> None:
        """Lead until *stop*."""
        if self.errors:
            raise self.errors.pop(0)
        if not self.taken.acquire(blocking=False):
            raise LeadershipLost("another leads", retry_after=10.0)
        try:
            self.watch = watch
            watch.led(time.monotonic() + self.ttl)
            stop.wait()
        finally:
            self.taken.release()

    def standby(self, seconds: float | None, stop: StopToken) -> None:
        """Wait for the wake."""
        self.waits.append(seconds)
        deadline = time.monotonic() + (seconds or 0.0)
        while not stop.cancelled and not self.released.is_set():
            if time.monotonic() > deadline:
                return
            time.sleep(0.002)
        self.released.clear()


def ill_while_it_leads(runner: SchedulerRunner, lease: Lease, patience: float) -> bool:
    """Return whether it is not healthy although it has just had a good turn."""
    runner._patience = patience
    assert lease.watch is not None
    lease.watch.led(time.monotonic() + lease.ttl)
    return not runner.health().healthy


@pytest.fixture
def lease() -> Lease:
    """Return a free lease."""
    return Lease()


@pytest.fixture
def runner(lease: Lease) -> Iterator[SchedulerRunner]:
    """Return a runner over the lease, stopped in the end."""
    one = SchedulerRunner(lease.lead, lease.standby)
    yield one
    assert one.stop(5)


def test_it_leads_when_nobody_does(runner: SchedulerRunner, lease: Lease) -> None:
    runner.start()
    wait_until(lambda: runner.state == "leading")
    assert lease.taken.locked()
    assert runner.health().healthy
    assert runner.stop(1)
    assert not lease.taken.locked()


def test_it_stands_by_and_takes_over_at_the_release(runner: SchedulerRunner, lease: Lease) -> None:
    lease.taken.acquire()
    runner.start()
    wait_until(lambda: runner.state == "standby")
    assert runner.health().healthy
    assert runner.last_error is None
    lease.taken.release()
    lease.released.set()
    wait_until(lambda: runner.state == "leading")


def test_without_a_wake_it_tries_again_when_the_lease_ends(
    runner: SchedulerRunner, lease: Lease
) -> None:
    """Field case B116: a little later, and not all standbys at once."""
    lease.taken.acquire()
    runner.start()
    wait_until(lambda: bool(lease.waits))
    assert lease.waits[0] is not None
    assert 10.0 <= lease.waits[0] <= 10.25
    lease.taken.release()


def test_other_errors_make_it_back_off_and_go_on(runner: SchedulerRunner, lease: Lease) -> None:
    """Field case B03: an error never means leadership."""
    gone = DatabaseError("away", retryable=True)
    lease.errors = [gone, KeyError("bug"), SystemExit(1), gone]
    runner.start()
    wait_until(lambda: runner.state == "backing-off")
    wait_until(lambda: runner.state == "leading")
    assert runner.last_error is gone


def test_its_health_names_schedules_that_should_have_fired(lease: Lease) -> None:
    """Field case B123."""
    late = ["nightly"]
    runner = SchedulerRunner(lease.lead, lease.standby, lambda: {"late": late}).start()
    try:
        wait_until(lambda: runner.state == "leading")
        health = runner.health()
        assert not health.healthy
        assert health.details["late"] == ["nightly"]
        late.clear()
        assert runner.health().healthy
    finally:
        assert runner.stop(5)


def test_its_health_tells_of_quarantined_schedules(lease: Lease) -> None:
    review: dict[str, Any] = {"late": [], "quarantined": {"nightly": "invalid spec"}}
    runner = SchedulerRunner(lease.lead, lease.standby, lambda: review).start()
    try:
        wait_until(lambda: runner.state == "leading")
        health = runner.health()
        assert health.healthy
        assert health.details["quarantined"] == {"nightly": "invalid spec"}
        assert "late" not in health.details
    finally:
        assert runner.stop(5)


def test_its_health_tells_that_the_database_could_not_be_asked(lease: Lease) -> None:
    def review() -> dict[str, Any]:
        raise DatabaseError("away", retryable=True)

    runner = SchedulerRunner(lease.lead, lease.standby, review).start()
    try:
        wait_until(lambda: runner.state == "leading")
        health = runner.health()
        assert health.healthy
        assert health.details["unanswered"] == "the database could not be asked: away"
        wait_until(lambda: ill_while_it_leads(runner, lease, 0.2))
        assert runner.health().reason == "the database could not be asked: away"
    finally:
        assert runner.stop(5)


def test_its_health_does_not_mind_one_connection_that_died(lease: Lease) -> None:
    errors = [DatabaseError("the connection is closed", retryable=True)]

    def review() -> dict[str, Any]:
        if errors:
            raise errors.pop()
        return {}

    runner = SchedulerRunner(lease.lead, lease.standby, review).start()
    try:
        wait_until(lambda: runner.state == "leading")
        assert runner.health().healthy
        assert not errors
    finally:
        assert runner.stop(5)


def test_its_health_never_waits_long_for_the_database_and_asks_it_once(lease: Lease) -> None:
    asked: list[float] = []
    answers = threading.Event()

    def review() -> dict[str, Any]:
        asked.append(time.monotonic())
        answers.wait(30)
        return {"quarantined": {"nightly": "invalid spec"}}

    runner = SchedulerRunner(lease.lead, lease.standby, review).start()
    try:
        wait_until(lambda: runner.state == "leading")
        for _ in range(2):
            with Stopwatch() as watch:
                health = runner.health()
            assert watch.seconds < 2
            assert health.healthy
            assert "the database has not answered" in health.details["unanswered"]
        assert ill_while_it_leads(runner, lease, 2.0)
        assert lease.watch is not None
        lease.watch.led(time.monotonic() + lease.ttl)
        assert "the database has not answered" in str(runner.health().reason)
        assert len(asked) == 1
        answers.set()
        wait_until(lambda: runner.health().healthy)
        assert runner.health().details == {
            "failures": 0,
            "quarantined": {"nightly": "invalid spec"},
        }
    finally:
        answers.set()
        assert runner.stop(5)


def test_its_details_are_no_old_ones_when_it_is_ill_for_another_reason(lease: Lease) -> None:
    review: dict[str, Any] = {"quarantined": {}}
    runner = SchedulerRunner(lease.lead, lease.standby, lambda: review).start()
    try:
        wait_until(lambda: runner.state == "leading")
        assert "quarantined" not in runner.health().details
        review = {"quarantined": {"nightly": "invalid spec"}}
        runner._patience = 0.0
        health = runner.health()
        assert "last good turn" in str(health.reason)
        assert health.details["quarantined"] == {"nightly": "invalid spec"}
    finally:
        assert runner.stop(5)


def test_a_slow_answer_is_no_missing_one(lease: Lease) -> None:
    """With very many schedules one look takes longer than a health call waits."""
    goes_on = threading.Semaphore(0)
    asked = 0

    def review() -> dict[str, Any]:
        nonlocal asked
        asked += 1
        if asked > 1:
            assert goes_on.acquire(timeout=30)
        return {"quarantined": {"nightly": str(asked)}}

    runner = SchedulerRunner(lease.lead, lease.standby, review).start()
    try:
        wait_until(lambda: runner.state == "leading")
        assert runner.health().healthy
        # The first took no time, the second has not ended yet.
        assert "unanswered" in runner.health().details
        goes_on.release()
        wait_until(lambda: runner.health().details["quarantined"] == {"nightly": "2"})
        health = runner.health()
        assert health.healthy
        assert health.details["quarantined"] == {"nightly": "2"}
    finally:
        goes_on.release(10)
        assert runner.stop(5)


def test_a_turn_that_fails_makes_it_back_off_until_the_next_good_one(
    lease: Lease, caplog: pytest.LogCaptureFixture
) -> None:
    """Contract, section 11; the log has one line for each change."""
    caplog.set_level(logging.INFO, "alkstore")
    runner = SchedulerRunner(lease.lead, lease.standby).start()
    try:
        wait_until(lambda: runner.state == "leading")
        assert lease.watch is not None
        gone = DatabaseError("away", retryable=True)
        for _ in range(3):
            lease.watch.failed(gone)
            assert runner.state == "backing-off"
        assert runner.last_error is gone
        assert runner.health().details["failures"] == 3
        lease.watch.led(time.monotonic() + 100.0)
        assert runner.state == "leading"
        assert runner.last_error is gone
        assert [one.levelname for one in caplog.records] == ["ERROR", "INFO"]
    finally:
        assert runner.stop(5)


def test_it_does_not_say_that_it_leads_when_its_lease_was_not_renewed(
    runner: SchedulerRunner, lease: Lease
) -> None:
    """Contract, section 11: whatever its loop is stuck in, with no failure to tell of."""
    lease.ttl = 0.0
    runner.start()
    wait_until(lambda: lease.watch is not None)
    wait_until(lambda: runner.state == "backing-off")
    assert runner.health().state == "backing-off"
    assert lease.watch is not None
    lease.watch.led(time.monotonic() + 100.0)
    assert runner.state == "leading"


def test_it_waits_for_the_call_that_its_loop_left_behind(lease: Lease) -> None:
    """Contract, section 11: while the lease may be held, it has not ended."""
    goes_on = threading.Event()
    call = threading.Thread(target=goes_on.wait, args=(30,), daemon=True)

    def lead(stop: StopToken, watch: LeaderWatch) -> None:
        lease.lead(stop, watch)
        call.start()
        watch.left(call)

    runner = SchedulerRunner(lead, lease.standby).start()
    try:
        wait_until(lambda: runner.state == "leading")
        assert not runner.stop(0.1)
        health = runner.health()
        assert (health.state, health.reason) == ("leading", "it is stopping")
        assert not runner.join(0.05)
        assert not runner.stop(0)
    finally:
        goes_on.set()
    assert runner.stop(5)
    assert runner.join(0)
    assert runner.state == "stopped"
    assert runner.health().reason == "it was stopped"
