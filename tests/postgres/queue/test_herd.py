"""A herd: with many idle workers, a job costs a bounded number of claim statements.

Field case B66: fifty workers sleep, and every notification made each of them query. The bound
does not grow with the number of workers that sleep in a process: a job that comes alone costs
two statements and one more for each other process; see `docs/explanation/wakes.md`.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from alkstore import StopToken
from alkstore.traits import Queue
from alkstore_postgres import PostgresStore
from alkstore_postgres.database.statements import Statements
from alkstore_postgres.queue import claimer as module
from tests.postgres.queue.test_waiting import waits
from tests.support.processes import Children, Parent
from tests.support.sql_probe import SqlProbe, Traffic
from tests.support.waiting import rest, wait_until

WORKERS = 50
PROCESSES = 10

POLL = 600.0
"""Instead of 5 s: only wakes count here."""

QUIET = 0.5
"""Longer than wakes are held back to be merged, in seconds."""


class Herd:
    """Idle workers of one queue in one process.

    Attributes:
        claims: How many claim statements they have sent.
        done: How many jobs they have done.
    """

    def __init__(self, queue: Queue, patch: pytest.MonkeyPatch) -> None:
        self.claims = 0
        self.done = 0
        self._queue = queue
        self._lock = threading.Lock()
        self._stop = StopToken()
        self._threads = [threading.Thread(target=self._work) for _ in range(WORKERS)]
        render = Statements._render

        def counted(statements: Statements, name: str, limit: int | None) -> bytes:
            if name.startswith("claim"):
                with self._lock:
                    self.claims += 1
            return render(statements, name, limit)

        patch.setattr(Statements, "_render", counted)

    def start(self, store: PostgresStore) -> None:
        """Return when all of them sleep."""
        for thread in self._threads:
            thread.start()
        shared = store._parts.hub.waiters._shared
        wait_until(lambda: len(shared.get(self._queue.name, ())) == WORKERS)
        wait_until(lambda: store._parts.hub.state == "listening")
        self.cost(0)

    def cost(self, jobs: int) -> int:
        """Return how many statements were sent until so many *jobs* were done and all sleep."""
        wait_until(lambda: self.done >= jobs, 30)
        assert self.done == jobs
        last = -1
        while last != self.claims:
            last = self.claims
            rest(QUIET)
        self.claims = self.done = 0
        return last

    def end(self) -> None:
        """End the threads."""
        self._stop.cancel()
        for thread in self._threads:
            thread.join(10)

    def _work(self) -> None:
        for handle in self._queue.jobs("w", stop=self._stop):
            assert handle.ack()
            with self._lock:
                self.done += 1


@pytest.fixture
def herd(store: PostgresStore, queue: Queue, monkeypatch: pytest.MonkeyPatch) -> Iterator[Herd]:
    """Fifty workers that sleep."""
    monkeypatch.setattr(module, "_POLL", POLL)
    herd = Herd(queue, monkeypatch)
    try:
        herd.start(store)
        yield herd
    finally:
        herd.end()


def test_one_job_among_fifty_idle_workers(queue: Queue, herd: Herd) -> None:
    for _ in range(3):
        queue.enqueue(1)
        cost = herd.cost(1)
        # The claim, which tells that there is no more, and a look after the ack.
        assert cost <= 2


def test_a_thousand_jobs_of_one_transaction(queue: Queue, herd: Herd) -> None:
    queue.enqueue_many(range(1000))
    cost = herd.cost(1000)
    assert cost <= 1000 + 2 * WORKERS


def test_five_hundred_single_enqueues(queue: Queue, herd: Herd) -> None:
    for number in range(500):
        queue.enqueue(number)
    cost = herd.cost(500)
    # Each: its wake's claim, a look after the ack, and one by the next when there was more.
    assert cost <= 500 * 3 + WORKERS


def idle_worker(parent: Parent, conninfo: str, schema: str) -> None:
    """Be a worker process that sleeps until there is something to do."""
    import alkstore_postgres

    module._POLL = POLL
    with alkstore_postgres.open(conninfo, schema, migrate=False) as store:
        store.start_worker("mail", lambda _job: None)
        wait_until(lambda: waits(store, "mail") and store._parts.hub.state == "listening")
        parent.say("sleeps")
        parent.hear()


def claims(traffic: Traffic) -> int:
    return sum("SET claimable = false" in one for one in traffic.statements)


def quiet(traffic: Traffic, done: Callable[[], bool]) -> int:
    """Return how many claims there were until all was done and nothing came any more."""
    wait_until(done, 30)
    last = -1
    while last != claims(traffic):
        last = claims(traffic)
        rest(QUIET)
    return last


def test_one_job_among_ten_idle_processes(
    queue: Queue, schema: str, sql_probe: SqlProbe, children: Children
) -> None:
    with ExitStack() as ending:
        # One after the other: ten interpreters that start, or end, at once on a busy machine are
        # slower than any of them is allowed to be.
        for _ in range(PROCESSES):
            child = children.start(idle_worker, sql_probe.conninfo, schema)
            ending.callback(child.finish)
            ending.callback(child.say, "end")
            assert child.hear() == "sleeps"
        rest(QUIET)
        with sql_probe.watching() as traffic:
            queue.enqueue(1)
            cost = quiet(traffic, lambda: queue.size() == 0)
        assert 1 <= cost <= 1 + 2 * PROCESSES
        with sql_probe.watching() as traffic:
            queue.enqueue_many(range(300))
            cost = quiet(traffic, lambda: queue.size() == 0)
        assert cost <= 300 + 2 * PROCESSES
