"""A relay sends no heartbeat: a delivery that takes long calls for its own."""

from __future__ import annotations

import threading
from datetime import datetime

from alkstore.memory import ManualClock, MemoryStore
from alkstore.runners.outbox import OutboxRunner
from alkstore.traits import JobHandle
from tests.support.waiting import wait_until

VISIBILITY = 0.2
"""So short that a few beats are due while a test looks on; those of the store's own outboxes are
held for a minute."""

BEATS = 3


def test_nobody_beats_for_a_delivery_while_a_worker_beats_for_its_handler() -> None:
    clock = ManualClock()
    delivering, go_on = threading.Event(), threading.Event()

    def deliver(_: JobHandle) -> None:
        delivering.set()
        go_on.wait(60)

    with MemoryStore(clock=clock) as store:
        messages = store.queue("messages", visibility_timeout=VISIBILITY)
        jobs = store.queue("jobs", visibility_timeout=VISIBILITY)
        relay = OutboxRunner(messages, deliver, "messages").start()
        message, job = messages.enqueue(1), jobs.enqueue(1)
        assert delivering.wait(60)
        at_first = store.get_job(message)
        worker = store.start_worker("jobs", lambda _: go_on.wait(60))
        for _ in range(BEATS):
            before = end_of_claim(store, job)
            clock.advance(0.001)  # each later beat moves the end of its claim
            wait_until(lambda before=before: end_of_claim(store, job) != before)  # type: ignore[misc]
        assert store.get_job(message) == at_first
        go_on.set()
        assert worker.stop(30)
        assert relay.stop(30)


def end_of_claim(store: MemoryStore, job_id: int) -> datetime | None:
    """Return when the claim of a job ends; ``None`` while nobody holds it."""
    job = store.get_job(job_id)
    assert job is not None
    return job.claim_expires_at
