"""Whoever looks into a queue sees held jobs in one order, whatever the engine."""

from __future__ import annotations

from alkstore import Store
from alkstore.testing import EngineHarness


def test_held_jobs_come_by_the_lapse_of_their_claims_and_then_by_id(
    engine: EngineHarness, store: Store
) -> None:
    queue = store.queue("mail", visibility_timeout=100)
    # They are claimed, and so written, in the opposite order of their ids.
    many = [queue.enqueue(number, priority=number - 5) for number in range(5)]
    short = store.queue("mail", visibility_timeout=30).enqueue("short")
    urgent = queue.enqueue("urgent", priority=9)
    waiting = [queue.enqueue("waits", delay=900), queue.enqueue("waits", delay=800)]

    first = queue.claim("worker", 1)
    engine.advance(10)
    batch = [handle for _ in range(6) for handle in queue.claim("worker")]
    assert queue.heartbeat_many(batch) == 6
    assert sorted(handle.id for handle in batch) == sorted([*many, short])

    # Prolonged together, these lapse later, all at one instant but the short one.
    assert [job.id for job in queue.peek()] == [*reversed(waiting), short, urgent, *many]
    assert [job.id for job in queue.peek(5)] == [*reversed(waiting), short, urgent, many[0]]

    # A heartbeat puts a claim's lapse off, and with it its place.
    (held,) = first
    assert held.heartbeat(1000)
    engine.advance(5)
    assert batch[-1].heartbeat()
    assert [job.id for job in queue.peek()][2:] == [
        short,
        *(job for job in many if job != batch[-1].id),
        batch[-1].id,
        urgent,
    ]
    # One that has lapsed is still held, and first in the row.
    engine.advance(500)
    assert next(job.id for job in queue.peek() if job.state == "processing") == short
