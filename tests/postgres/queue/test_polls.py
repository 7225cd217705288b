"""Section 5 of the contract: who waits for a job looks again by itself, though no wake comes."""

from __future__ import annotations

import threading

from alkstore.traits import JobHandle, Queue
from alkstore_postgres import PostgresStore
from tests.support.hubs import Ear
from tests.support.job_table import JobTable
from tests.support.timing import Stopwatch
from tests.support.waiting import rest, wait_until

POLL = 5.0
"""After how many seconds it looks again at the latest."""

SLACK = 0.5
"""What a look and a busy test machine may add, in seconds."""


def test_a_job_that_became_ready_unheard_is_found_by_the_next_poll(
    store: PostgresStore, queue: Queue, table: JobTable
) -> None:
    """It sleeps before a job of an hour later, which a hand in the table then makes due."""
    job = queue.enqueue(1, delay=3600)
    hub, ear = store._parts.hub, Ear()
    got: list[JobHandle] = []
    waiter = threading.Thread(
        target=lambda: got.extend(queue.claim_wait("w", timeout=60)), daemon=True
    )
    hub.attach(queue.name, ear)
    waiter.start()
    wait_until(lambda: hub.state == "listening")
    rest(0.2)  # it has looked, and sleeps
    assert not got
    ear.heard.clear()
    table.move(job, "run_at", -1)
    with Stopwatch() as watch:
        waiter.join(30)
    assert [handle.id for handle in got] == [job]
    assert ear.heard == [], "a wake came: this shows nothing of polls"
    assert watch.seconds < POLL + SLACK
