"""Field case B63: batch statements at full speed in shuffled order never deadlock the caller."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import psycopg
import pytest

from alkstore.traits import JobHandle, Queue
from alkstore_postgres import PostgresStore
from tests.support.waiting import wait_until
from tests.support.workers import release_many

SECONDS = 4.0
JOBS = 1_500


class Storm:
    """Threads that each repeat one call on random parts of what is there."""

    def __init__(self, queue: Queue) -> None:
        self._queue = queue
        self._held: list[JobHandle] = []
        self._over = threading.Event()
        self.errors: list[BaseException] = []
        self.turns: dict[str, int] = {}

    def run(self, calls: dict[str, Callable[[], object]]) -> None:
        """Run each call in a thread of its own for a while."""
        threads = [
            threading.Thread(target=self._repeat, args=(name, call)) for name, call in calls.items()
        ]
        for thread in threads:
            thread.start()
        time.sleep(SECONDS)
        # Where the machine is busy, somebody may have had no turn yet.
        wait_until(lambda: self._over.is_set() or len(self.turns) == len(calls), 60)
        self._over.set()
        for thread in threads:
            thread.join(60)
            assert not thread.is_alive()

    def _repeat(self, name: str, call: Callable[[], object]) -> None:
        try:
            while not self._over.is_set():
                call()
                self.turns[name] = self.turns.get(name, 0) + 1
        except BaseException as error:  # noqa: BLE001 - the outcome, whatever it is
            self.errors.append(error)
            self._over.set()

    def claim(self) -> None:
        self._held += self._queue.claim("w", 200)
        del self._held[:-3_000]

    def some(self) -> list[JobHandle]:
        """Return some handles, stale ones among them, in any order."""
        held = self._held[:]
        return random.sample(held, min(len(held), 300))

    def ack(self) -> None:
        self._queue.ack_many(self.some()[:50])
        self._queue.enqueue_many(range(50), expires=random.choice([1, 60]), max_attempts=2)

    def beat(self) -> None:
        self._queue.heartbeat_many(self.some())

    def release(self) -> None:
        release_many(self._queue, self.some()[:20])

    def settle_one(self) -> None:
        for handle in self.some()[:20]:
            ways: list[Callable[[], bool]] = [handle.release, handle.heartbeat]
            ways.append(partial(handle.retry, "x", 0))
            random.choice(ways)()

    def fail(self) -> None:
        for handle in self.some()[:20]:
            handle.fail("x")

    def requeue(self) -> None:
        ids = [letter.id for letter in self._queue.dead(300)]
        random.shuffle(ids)
        self._queue.requeue(ids)

    def purge(self) -> None:
        ids = [letter.id for letter in self._queue.dead(300)]
        random.shuffle(ids)
        self._queue.purge(ids[:100])

    def cancel(self) -> None:
        for handle in self.some()[:20]:
            self._queue.cancel(handle.id)


def test_everything_at_once_in_shuffled_order_reaches_the_caller_without_an_error(
    open_store: Callable[..., PostgresStore], connection: psycopg.Connection[Any]
) -> None:
    queue = open_store(max_size=20).queue("mail", visibility_timeout=0.05)
    queue.enqueue_many(range(JOBS), max_attempts=2)
    storm = Storm(queue)
    before = deadlocks(connection)
    storm.run(
        {
            **{f"claim {n}": storm.claim for n in range(3)},
            **{f"ack {n}": storm.ack for n in range(2)},
            **{f"beat {n}": storm.beat for n in range(2)},
            "settle": storm.settle_one,
            "release": storm.release,
            "fail": storm.fail,
            "requeue 0": storm.requeue,
            "requeue 1": storm.requeue,
            "purge 0": storm.purge,
            "purge 1": storm.purge,
            "cancel": storm.cancel,
            "purge all": lambda: queue.purge(older_than=0.2),
            "stats": queue.stats,
        }
    )
    if storm.errors:
        raise storm.errors[0]
    assert len(storm.turns) == 17
    assert deadlocks(connection) == before


def deadlocks(connection: psycopg.Connection[Any]) -> int:
    """Return how many deadlocks the server has had to break in this database."""
    connection.execute("SELECT pg_stat_clear_snapshot()")
    row = connection.execute(
        "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()"
    ).fetchone()
    assert row is not None
    return int(row[0])


@pytest.mark.parametrize("kind", ["ack_many", "heartbeat_many", "release_many"])
def test_batches_of_the_same_jobs_in_opposite_orders_wait_for_each_other(
    queue: Queue, kind: str
) -> None:
    for _ in range(15):
        queue.enqueue_many(range(300))
        handles = queue.claim("w", 300)
        barrier = threading.Barrier(4)
        counted: list[int] = []

        def settle(
            order: list[JobHandle], barrier: threading.Barrier = barrier, into: list[int] = counted
        ) -> None:
            barrier.wait()
            into.append(getattr(queue, kind)(order))

        orders = [handles, handles[::-1], sorted(handles, key=lambda _: random.random()), handles]
        threads = [threading.Thread(target=settle, args=(order,)) for order in orders]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(counted) == 4
        assert sum(counted) == (1_200 if kind == "heartbeat_many" else 300)
        queue.ack_many(handles)
