"""Workers: they keep what they hold, settle what ended, and go on whatever a handler does."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import psycopg_pool
import pytest

from alkstore.errors import InvalidName, InvalidOption
from alkstore.runners import WorkerRunner
from alkstore.traits import Handler, JobHandle, Queue
from alkstore_postgres import PostgresStore
from tests.support.faults import Faults, settling
from tests.support.rows import Rows
from tests.support.sessions import kill_sessions
from tests.support.waiting import wait_until


@pytest.fixture
def rows(connection: psycopg.Connection[Any], schema: str) -> Rows:
    """Return the rows, to move their times."""
    return Rows(connection, schema)


@pytest.fixture
def queue(store: PostgresStore) -> Queue:
    """Return a queue."""
    return store.queue("emails")


@pytest.fixture
def faults(monkeypatch: pytest.MonkeyPatch) -> Faults:
    """Return the faults of this test."""
    return Faults(monkeypatch)


@pytest.fixture
def start() -> Iterator[Callable[..., WorkerRunner]]:
    """Start workers over any queue; they are stopped in the end."""
    running: list[WorkerRunner] = []

    def make(queue: Queue, handler: Handler, concurrency: int = 1) -> WorkerRunner:
        running.append(WorkerRunner(queue, handler, concurrency, "tester").start())
        return running[-1]

    yield make
    for one in running:
        one.stop(5)
        assert one.join(5)


Start = Callable[..., WorkerRunner]


def is_empty(queue: Queue) -> bool:
    return queue.size() == 0


# Bad arguments.


def test_bad_arguments_are_refused_before_any_thread_starts(store: PostgresStore) -> None:
    before = threading.active_count()
    with pytest.raises(InvalidName):
        store.start_worker("", print)
    with pytest.raises(InvalidOption):
        store.start_worker("emails", print, 0)
    with pytest.raises(InvalidOption):
        store.start_worker("emails", print, 1_001)
    with pytest.raises(InvalidOption):
        store.start_worker("emails", "handler")  # type: ignore[arg-type]
    with pytest.raises(InvalidOption):
        store.start_worker("emails", print, visibility_timeout=0)
    assert threading.active_count() == before


# Dispositions.


def test_a_handler_that_returns_acknowledges(queue: Queue, start: Start) -> None:
    got: list[Any] = []
    start(queue, lambda job: got.append(job.payload))
    queue.enqueue({"to": "ada"})
    wait_until(lambda: is_empty(queue))
    assert got == [{"to": "ada"}]
    assert queue.dead() == []


def test_a_handler_that_raises_costs_an_attempt_on_the_curve(
    store: PostgresStore, start: Start, rows: Rows
) -> None:
    queue = store.queue("emails", max_attempts=2, base_backoff=30)
    job_id = queue.enqueue(1)
    attempts: list[int] = []

    def handler(job: JobHandle) -> None:
        attempts.append(job.attempt)
        raise ValueError(f"no such host, {job.attempt}")

    start(queue, handler)
    wait_until(lambda: queue.stats().retrying == 1)
    assert 25 < rows.gap(job_id) <= 30
    rows.make_due()
    store.notify("emails")
    wait_until(lambda: queue.stats().dead == 1)
    assert attempts == [1, 2]
    assert queue.dead()[0].error == "no such host, 2"


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (ImportError("no module named x"), "no module named x"),
        (SystemExit(3), "SystemExit: 3"),
        (KeyboardInterrupt(), "KeyboardInterrupt"),
        (GeneratorExit(), "GeneratorExit"),
        (MemoryError(), "MemoryError"),
        (RecursionError("deep"), "deep"),
        (ValueError("nul \0 and \ud800"), "nul \\x00 and \\ud800"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, BaseException) else "",
)
def test_whatever_a_handler_raises_the_next_job_runs_and_the_reason_is_kept(
    queue: Queue, start: Start, error: BaseException, text: str
) -> None:
    """Field cases B54 and B92."""
    got: list[str] = []

    def handler(job: JobHandle) -> None:
        if job.payload == "bad":
            raise error
        got.append(job.payload)

    worker = start(queue, handler)
    queue.enqueue("bad", max_attempts=1)
    queue.enqueue("good")
    wait_until(lambda: is_empty(queue))
    assert got == ["good"]
    assert [letter.error for letter in queue.dead()] == [text]
    assert worker.state == "working"


def test_a_payload_that_does_not_decode_is_a_failed_attempt(
    queue: Queue, start: Start, rows: Rows
) -> None:
    """Field case B54."""
    got: list[Any] = []
    rows.damage(queue.enqueue("x", max_attempts=1))
    queue.enqueue("good")
    start(queue, lambda job: got.append(job.payload))
    wait_until(lambda: is_empty(queue))
    assert got == ["good"]
    assert len(queue.dead()) == 1


@pytest.mark.parametrize("raises", [False, True])
def test_what_a_handler_settled_itself_stays_so(
    store: PostgresStore, queue: Queue, start: Start, raises: bool
) -> None:
    def handler(job: JobHandle) -> None:
        assert job.retry("later", delay=3_600)
        if raises:
            raise ValueError("too late")

    job_id = queue.enqueue(1)
    worker = start(queue, handler)
    wait_until(lambda: worker.health().details["in_hand"] == 0 and queue.stats().retrying)
    assert worker.stop()
    job = store.get_job(job_id)
    assert job is not None
    assert (job.state, job.attempts) == ("pending", 1)


def test_no_more_than_the_concurrency_run_at_once_and_all_of_them_do(
    queue: Queue, start: Start
) -> None:
    together = threading.Barrier(4)
    running = itertools.count(1)
    lock = threading.Lock()
    now, most = 0, 0

    def handler(_job: JobHandle) -> None:
        nonlocal now, most
        with lock:
            now += 1
            most = max(most, now)
        if next(running) <= 4:
            together.wait(10)
        with lock:
            now -= 1

    queue.enqueue_many(range(200))
    start(queue, handler, 4)
    wait_until(lambda: is_empty(queue))
    assert most == 4
    assert not together.broken


def test_every_job_of_many_runs_exactly_once(queue: Queue, start: Start) -> None:
    got: list[int] = []
    queue.enqueue_many(range(3_000))
    workers = [start(queue, lambda job: got.append(job.payload), 4) for _ in range(2)]
    wait_until(lambda: is_empty(queue), 30)
    assert sorted(got) == list(range(3_000))
    assert all(worker.last_error is None for worker in workers)


def test_handlers_may_use_a_pool_that_is_smaller_than_their_number(
    open_store: Callable[..., PostgresStore], start: Start
) -> None:
    """Field cases B85 and B86."""
    store = open_store(min_size=1, max_size=2)
    queue = store.queue("emails", visibility_timeout=1)
    other = store.queue("other")
    queue.enqueue_many(range(60))

    def handler(job: JobHandle) -> None:
        with store.transaction() as tx:
            tx.execute("SELECT pg_sleep(0.02)")
            store.enqueue_tx(tx, "other", job.payload)

    worker = start(queue, handler, 20)
    wait_until(lambda: is_empty(queue), 30)
    assert other.size() == 60
    assert worker.last_error is None


def test_no_connection_is_held_while_a_handler_runs(
    open_store: Callable[..., PostgresStore], start: Start
) -> None:
    """Field case B85: a pool of one connection."""
    store = open_store(min_size=1, max_size=1)
    queue = store.queue("emails")
    queue.enqueue("first")

    def handler(job: JobHandle) -> None:
        if job.payload == "first":
            queue.enqueue("second")

    start(queue, handler, 4)
    wait_until(lambda: is_empty(queue))


# Heartbeats.


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
    queue = store.queue("emails", visibility_timeout=1.2)
    beats = Beats(queue)
    attempts: list[int] = []

    def handler(job: JobHandle) -> None:
        attempts.append(job.attempt)
        time.sleep(3)

    queue.enqueue(1)
    start(beats, handler)
    wait_until(lambda: attempts)
    start(queue, handler)
    wait_until(lambda: is_empty(queue), 20)
    assert attempts == [1]
    assert beats.widest_gap <= 0.4


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
    queue = store.queue("emails", visibility_timeout=2)
    beats = Beats(queue)
    sizes: list[int] = []
    release = threading.Event()
    extend = beats.heartbeat_many

    def counting(handles: list[JobHandle], at_least: float = 0.0) -> int:
        sizes.append(len(handles))
        return extend(handles, at_least)

    beats.heartbeat_many = counting  # type: ignore[method-assign]
    queue.enqueue_many(range(5))
    start(beats, lambda _job: release.wait(10), 5)
    wait_until(lambda: len(sizes) >= 2)
    release.set()
    assert set(sizes) == {5}


def test_an_idle_worker_sends_no_heartbeat(
    store: PostgresStore, start: Start, faults: Faults
) -> None:
    queue = store.queue("emails", visibility_timeout=0.2)
    start(queue, lambda _job: None)
    queue.enqueue(1)
    wait_until(lambda: is_empty(queue))
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


# The database goes away.


def test_an_acknowledgement_survives_the_death_of_every_connection(
    queue: Queue, start: Start, connection: psycopg.Connection[Any], schema: str
) -> None:
    """Field cases B33 and B56."""
    attempts: list[int] = []

    def handler(job: JobHandle) -> None:
        attempts.append(job.attempt)
        assert kill_sessions(connection, schema)

    worker = start(queue, handler)
    queue.enqueue(1)
    wait_until(lambda: worker.health().details["finished"] == 1)
    wait_until(lambda: worker.health().details["in_hand"] == 0)
    assert worker.stop()
    assert attempts == [1]


@pytest.mark.parametrize("outcome", ["ack", "retry"])
def test_what_cannot_be_written_is_given_up_and_the_job_comes_back(
    store: PostgresStore,
    start: Start,
    faults: Faults,
    caplog: pytest.LogCaptureFixture,
    outcome: str,
) -> None:
    """Field cases B33 and B56."""
    queue = store.queue("emails", visibility_timeout=0.3)
    faults.block(*settling(store, "ack_many", "retry", "heartbeat_many"))
    attempts: list[int] = []

    def handler(job: JobHandle) -> None:
        attempts.append(job.attempt)
        if outcome == "retry" and job.attempt == 1:
            raise ValueError("no")

    worker = start(queue, handler)
    queue.enqueue(1)
    wait_until(lambda: "could not be written" in caplog.text, 20)
    assert worker.state == "backing-off"
    faults.end()
    store.notify("emails")
    wait_until(lambda: is_empty(queue))
    assert attempts[:2] == [1, 2]
    wait_until(lambda: worker.state == "working")


FAULTS: list[tuple[type[BaseException], bool]] = [
    (psycopg.OperationalError, False),
    (psycopg.OperationalError, True),
    (psycopg_pool.PoolTimeout, False),
    (KeyError, False),
    (MemoryError, True),
    (SystemExit, False),
    (KeyboardInterrupt, True),
]


@pytest.mark.parametrize(("error", "afterwards"), FAULTS)
def test_an_error_at_any_statement_of_a_turn_costs_neither_the_worker_nor_a_job(
    store: PostgresStore,
    faults: Faults,
    error: type[BaseException],
    afterwards: bool,
) -> None:
    """Field case B08: the kinds one by one, at the statements one by one."""
    queue = store.queue("emails", visibility_timeout=0.4, base_backoff=0.01, max_attempts=50)
    done: set[int] = set()
    failed_once: set[int] = set()

    def handler(job: JobHandle) -> None:
        if job.payload == "fails once" and job.id not in failed_once:
            failed_once.add(job.id)
            raise ValueError("no")
        time.sleep(0.15)  # long enough for a heartbeat
        done.add(job.id)

    for number in range(1, 9):
        ids = queue.enqueue_many(["good", "fails once", "good"])
        faults.seen.clear()
        raised = error("injected")
        faults.at(number, raised, afterwards=afterwards)
        worker = WorkerRunner(queue, handler, 2).start()
        deadline = time.monotonic() + 10
        while queue.size():
            assert time.monotonic() < deadline, f"statement {number}: jobs are left"
            time.sleep(0.05)
        assert done >= set(ids)
        assert worker.last_error is None or worker.health().details["failures"] == 1
        wait_until(lambda: worker.state == "working")  # noqa: B023 - called here only
        assert worker.health().healthy
        assert worker.stop(5)


# The end.


def test_running_handlers_may_finish_before_stop_returns(queue: Queue, start: Start) -> None:
    """Field case B88."""
    started = threading.Event()

    def handler(_job: JobHandle) -> None:
        started.set()
        time.sleep(0.5)

    worker = start(queue, handler)
    queue.enqueue(1)
    assert started.wait(5)
    later = queue.enqueue(2)
    assert worker.stop(5) is True
    assert worker.state == "stopped"
    assert queue.size() == 1
    assert queue.cancel(later)


def test_heartbeats_go_on_during_a_stop(store: PostgresStore, start: Start) -> None:
    """Field case B52."""
    queue = store.queue("emails", visibility_timeout=0.6)
    attempts: list[int] = []
    started = threading.Event()

    def handler(job: JobHandle) -> None:
        attempts.append(job.attempt)
        started.set()
        time.sleep(2)

    worker = start(queue, handler)
    queue.enqueue(1)
    assert started.wait(5)
    stopping = threading.Thread(target=worker.stop, args=(10,))
    stopping.start()
    thief = start(queue, handler)
    stopping.join(10)
    assert attempts == [1]
    assert is_empty(queue)
    assert thief.last_error is None


def test_when_the_time_is_up_claims_are_released_with_their_attempts(
    store: PostgresStore, queue: Queue, start: Start
) -> None:
    """Field case B88: visible at once, nothing burned; what finishes later is powerless."""
    started = threading.Barrier(4)
    release = threading.Event()
    answers: list[bool] = []

    def handler(job: JobHandle) -> None:
        started.wait(5)
        release.wait(10)
        answers.append(job.ack())

    ids = queue.enqueue_many(range(3))
    worker = start(queue, handler, 3)
    started.wait(5)
    began = time.monotonic()
    assert worker.stop(0.3) is False
    assert time.monotonic() - began < 1.4
    jobs = [store.get_job(one) for one in ids]
    assert [(job.state, job.attempts) for job in jobs if job] == [("pending", 0)] * 3
    thieves = queue.claim("thief", 3)
    release.set()
    assert worker.join(5)
    assert answers == [False] * 3
    assert queue.ack_many(thieves) == 3
    assert worker.last_error is None


def test_a_second_stop_with_less_time_shortens_the_first(queue: Queue, start: Start) -> None:
    """Field case B88: a second SIGTERM means at once."""
    started, release = threading.Event(), threading.Event()

    def handler(_job: JobHandle) -> None:
        started.set()
        release.wait(10)

    worker = start(queue, handler)
    queue.enqueue(1)
    assert started.wait(5)
    patient = threading.Thread(target=worker.stop, args=(30,))
    patient.start()
    assert worker.stop(0) is False
    wait_until(lambda: queue.stats().ready == 1)
    release.set()
    patient.join(5)
    assert not patient.is_alive()


def test_claims_that_no_handler_has_begun_are_released_at_once(
    queue: Queue, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Field case B88."""
    started, release = threading.Event(), threading.Event()

    def handler(_job: JobHandle) -> None:
        started.set()
        release.wait(10)

    worker = WorkerRunner(queue, handler)
    monkeypatch.setattr(worker, "_ahead", lambda: 4)
    queue.enqueue_many(range(5))
    worker.start()
    assert started.wait(5)
    wait_until(lambda: queue.stats().running == 5, 5)
    worker.ask_to_end(30)
    wait_until(lambda: queue.stats().running == 1, 0.9)
    assert queue.stats().ready == 4
    release.set()
    assert worker.join(5)
    assert queue.size() == 4


def test_claims_ahead_are_given_back_when_the_handlers_turn_out_slow(
    queue: Queue, monkeypatch: pytest.MonkeyPatch
) -> None:
    started, release = threading.Event(), threading.Event()

    def handler(_job: JobHandle) -> None:
        started.set()
        release.wait(10)

    worker = WorkerRunner(queue, handler)
    ahead = [4]
    monkeypatch.setattr(worker, "_ahead", lambda: ahead[0])
    queue.enqueue_many(range(5))
    worker.start()
    assert started.wait(5)
    wait_until(lambda: queue.stats().running == 5, 5)
    ahead[0] = 0
    wait_until(lambda: queue.stats().ready == 4, 5)
    release.set()
    wait_until(lambda: is_empty(queue))
    assert worker.stop()


@pytest.mark.parametrize("kind", ["on their last attempt", "tried before"])
def test_dangerous_jobs_are_claimed_one_by_one(
    queue: Queue, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """A process that one of them ends takes no attempt of the others with it."""
    queue.enqueue_many(range(6), max_attempts=1 if kind == "on their last attempt" else 3)
    if kind == "tried before":
        for handle in queue.claim("one that failed", 6):
            handle.retry("no", delay=0)
    limits: list[int] = []
    claim_wait = type(queue).claim_wait

    def spy(self: Queue, worker_id: str, limit: int, **options: Any) -> list[JobHandle]:
        limits.append(limit)
        return claim_wait(self, worker_id, limit, **options)

    monkeypatch.setattr(type(queue), "claim_wait", spy)
    worker = WorkerRunner(queue, lambda _: None)
    monkeypatch.setattr(worker, "_ahead", lambda: 4)
    worker.start()
    wait_until(lambda: is_empty(queue))
    assert worker.stop()
    assert set(limits) == {1}


def test_a_handler_may_stop_its_own_worker(queue: Queue, start: Start) -> None:
    answers: list[bool] = []

    def handler(_job: JobHandle) -> None:
        answers.append(workers[0].stop(30))

    workers: list[WorkerRunner] = []
    queue.enqueue(1)
    worker = WorkerRunner(queue, handler)
    workers.append(worker)
    worker.start()
    assert worker.join(5)
    assert answers == [False]
    assert is_empty(queue)


def test_a_worker_ends_with_its_store(open_store: Callable[..., PostgresStore]) -> None:
    store = open_store()
    worker = store.start_worker("emails", lambda _job: None)
    began = time.monotonic()
    store.close()
    assert worker.state == "stopped"
    assert time.monotonic() - began < 2
