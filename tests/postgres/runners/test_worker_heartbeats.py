"""Workers keep what they hold: the claims in hand are extended, and what was lost stays lost."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from alkstore.errors import InvalidOption
from alkstore.stop_token import StopToken
from alkstore.traits import JobHandle, Queue
from alkstore_postgres import PostgresStore
from tests.support.faults import Faults, settling
from tests.support.programs import Program
from tests.support.rows import Rows
from tests.support.timing import in_time
from tests.support.waiting import wait_until
from tests.support.workers import Start, is_empty


class Beats:
    """A queue that remembers when claims were extended.

    Args:
        queue: The queue behind it.
    """

    def __init__(self, queue: Queue) -> None:
        self._queue = queue
        self.times: list[float] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._queue, name)

    def claim_wait(self, *args: Any, **options: Any) -> list[JobHandle]:
        """Claim, which extends as well."""
        return self._noted(self._queue.claim_wait(*args, **options))

    def claim(self, *args: Any, **options: Any) -> list[JobHandle]:
        """Claim, which extends as well."""
        return self._noted(self._queue.claim(*args, **options))

    def heartbeat_many(self, handles: list[JobHandle], at_least: float = 0.0) -> int:
        """Extend claims."""
        held = self._queue.heartbeat_many(handles, at_least)
        self.times.append(time.monotonic())
        return held

    def _noted(self, handles: list[JobHandle]) -> list[JobHandle]:
        if handles:
            self.times.append(time.monotonic())
        return handles

    @property
    def widest_gap(self) -> float:
        """The longest time between two extensions."""
        return max(later - sooner for sooner, later in itertools.pairwise(self.times))


def test_a_long_handler_is_never_run_twice_and_beats_often_enough(
    store: PostgresStore, start: Start
) -> None:
    """Field cases B48 and B49: no gap between two beats is longer than a third."""
    queue = store.queue("emails", visibility_timeout=6)
    beats = Beats(queue)
    attempts: list[int] = []

    def handler(job: JobHandle) -> None:
        attempts.append(job.attempt)
        wait_until(lambda: len(beats.times) >= 4, 30)

    def widest_gap() -> float:
        del beats.times[:], attempts[:]
        queue.enqueue(1)
        wait_until(lambda: attempts)
        while not is_empty(queue):
            assert queue.claim("thief") == []
            time.sleep(0.02)
        assert attempts == [1]
        return beats.widest_gap

    start(beats, handler)
    in_time(widest_gap, 2)


def test_a_process_whose_beats_come_late_may_hold_its_claims_for_longer(
    store: PostgresStore, rows: Rows
) -> None:
    """Field case B48."""
    queue = store.queue("emails", visibility_timeout=10)
    job_id = queue.enqueue(1)
    handles = queue.claim("tester")
    assert queue.heartbeat_many(handles, at_least=50) == 1
    assert 45 < rows.held_for(job_id) <= 50
    assert queue.heartbeat_many(handles, at_least=3) == 1
    assert 5 < rows.held_for(job_id) <= 10
    with pytest.raises(InvalidOption):
        queue.heartbeat_many(handles, at_least=-1)


def test_all_claims_in_hand_are_extended_in_one_statement(
    store: PostgresStore, start: Start
) -> None:
    queue = store.queue("emails", visibility_timeout=6)
    beats = Beats(queue)
    sizes: list[int] = []
    release = threading.Event()
    extend = beats.heartbeat_many

    def counting(handles: list[JobHandle], at_least: float = 0.0) -> int:
        sizes.append(len(handles))
        return extend(handles, at_least)

    beats.heartbeat_many = counting  # type: ignore[method-assign]
    queue.enqueue_many(range(5))
    start(beats, lambda _job: release.wait(30), 5)
    wait_until(lambda: len(sizes) >= 2, 20)
    release.set()
    assert set(sizes) == {5}


def test_an_idle_worker_sends_no_heartbeat(
    store: PostgresStore, start: Start, faults: Faults
) -> None:
    queue = store.queue("emails", visibility_timeout=0.2)
    worker = start(queue, lambda _job: None)
    queue.enqueue(1)
    wait_until(lambda: is_empty(queue))
    wait_until(lambda: worker.health().details["in_hand"] == 0)
    faults.seen.clear()
    time.sleep(0.6)
    (heartbeat,) = settling(store, "heartbeat_many")
    assert heartbeat not in faults.seen


def test_a_handler_learns_that_its_claim_is_gone_and_nothing_is_written(
    store: PostgresStore, start: Start
) -> None:
    """Field case B52."""
    queue = store.queue("emails", visibility_timeout=0.6)
    told = threading.Event()
    started = threading.Event()

    def handler(job: JobHandle) -> None:
        started.set()
        wait_until(lambda: job.lost)
        told.set()

    worker = start(queue, handler)
    job_id = queue.enqueue(1)
    assert started.wait(5)
    assert queue.cancel(job_id)
    assert told.wait(5)
    wait_until(lambda: worker.health().details["in_hand"] == 0)
    assert worker.last_error is None


def test_a_steal_while_heartbeats_are_blocked_leaves_the_thief_alone(
    store: PostgresStore, start: Start, faults: Faults
) -> None:
    """Field case B51."""
    queue = store.queue("emails", visibility_timeout=0.4)
    faults.block(*settling(store, "heartbeat_many"))
    started, release = threading.Event(), threading.Event()

    def handler(_job: JobHandle) -> None:
        started.set()
        release.wait(10)

    worker = start(queue, handler)
    job_id = queue.enqueue(1)
    assert started.wait(5)
    assert worker.stop(0) is False  # it claims nothing more; the release is due any moment
    wait_until(lambda: worker.health().details["in_hand"] == 0)
    (thief,) = queue.claim("thief")
    release.set()
    assert worker.join(5)
    job = store.get_job(job_id)
    assert job is not None
    assert (job.worker_id, job.attempts) == ("thief", 1)
    assert thief.ack()


def test_a_lapsed_claim_that_was_taken_is_not_acknowledged_by_its_first_holder(
    store: PostgresStore, start: Start, rows: Rows
) -> None:
    """Field cases B49 and B51."""
    queue = store.queue("emails")
    started, release = threading.Event(), threading.Event()
    handled: list[int] = []

    def handler(job: JobHandle) -> None:
        handled.append(job.attempt)
        started.set()
        release.wait(10)

    worker = start(queue, handler)
    job_id = queue.enqueue(1)
    assert started.wait(5)
    rows.lapse()
    (thief,) = queue.claim("thief")
    release.set()
    wait_until(lambda: worker.health().details["in_hand"] == 0)
    job = store.get_job(job_id)
    assert job is not None
    assert (job.worker_id, job.attempts, job.state) == ("thief", 2, "processing")
    assert thief.ack()
    assert handled == [1]
    assert worker.last_error is None
    assert queue.dead() == []


@pytest.mark.slow
def test_a_handler_that_holds_the_interpreter_for_a_second_at_a_time_keeps_its_claim(
    run: Callable[[str], Program], store: PostgresStore
) -> None:
    """Field case B48: no other thread of its process runs for most of the time."""
    program = run("""
import ctypes
sleep = ctypes.PyDLL(None).usleep  # keeps the interpreter's lock
over = threading.Event()
def handler(job):
    say("started")
    for _ in range(13):
        sleep(1_000_000)
    say("finished")
    over.set()
queue = store.queue("emails", visibility_timeout=5)
queue.enqueue(1)
worker = store.start_worker("emails", handler)
over.wait()
while queue.size(): time.sleep(0.05)
store.close()
""")
    program.wait_for("started")
    queue = store.queue("emails")
    stolen: list[JobHandle] = []
    thief = StopToken()

    def steal() -> None:
        while not thief.wait(0.05):
            stolen.extend(queue.claim("thief"))

    stealing = threading.Thread(target=steal)
    stealing.start()
    program.wait_for("finished")
    thief.cancel()
    stealing.join()
    assert stolen == []
    assert program.end()[:2] == (0, "")
