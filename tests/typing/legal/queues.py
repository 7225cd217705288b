"""Uses of queues, handles and jobs that every type checker must accept. Checked, never run."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from typing import Any, Literal

from typing_extensions import assert_type

from alkstore import (
    DeadJob,
    EnqueueOptions,
    Job,
    JobHandle,
    Queue,
    QueueOptions,
    QueueStats,
    Seconds,
    StopToken,
    Store,
)
from alkstore.values import Payload

SOON = datetime.now(timezone.utc) + timedelta(minutes=5)


def durations() -> list[Seconds]:
    """Numbers or timedeltas."""
    return [5, 0.5, timedelta(minutes=1)]


def a_store_gives_queues_and_jobs(store: Store, queue_options: QueueOptions) -> None:
    """Options are keywords, and may be kept in a typed dictionary."""
    assert_type(store.queue("mail"), Queue)
    store.queue("mail", visibility_timeout=30, max_attempts=5, base_backoff=timedelta(1))
    store.queue("mail", **queue_options)
    assert_type(store.get_job(1), Job | None)


def options_can_be_kept(queue: Queue) -> None:
    """The options are typed dictionaries."""
    stamps: QueueOptions = {
        "visibility_timeout": timedelta(minutes=1),
        "max_attempts": 5,
        "base_backoff": 0.5,
    }
    assert_type(stamps["max_attempts"], int)
    assert_type(stamps.get("visibility_timeout"), float | timedelta | None)
    later: EnqueueOptions = {"delay": 5, "priority": 3, "expires": 60.0, "max_attempts": 2}
    at: EnqueueOptions = {"run_at": SOON}
    assert_type(at["run_at"], datetime)
    queue.enqueue(1, **later)
    queue.enqueue_many([1], **at)


def filling_a_queue(queue: Queue) -> None:
    """A payload is what the codec takes, and so anything here."""
    assert_type(queue.name, str)
    assert_type(queue.enqueue({"to": 1}), int)
    assert_type(queue.enqueue(None, delay=5, priority=-1, expires=timedelta(1)), int)
    assert_type(queue.enqueue("x", run_at=SOON, max_attempts=2), int)
    assert_type(queue.enqueue_many(range(3), delay=0.5), list[int])
    assert_type(queue.enqueue_many(str(number) for number in range(3)), list[int])
    assert_type(queue.enqueue_many([]), list[int])


def taking_from_a_queue(queue: Queue, stop: StopToken) -> None:
    """Without waiting, waiting, and for ever."""
    assert_type(queue.claim("worker"), list[JobHandle])
    assert_type(queue.claim("worker", limit=10), list[JobHandle])
    assert_type(queue.claim_wait("worker"), list[JobHandle])
    assert_type(queue.claim_wait("worker", 5, timedelta(1), stop), list[JobHandle])
    assert_type(queue.claim_wait("worker", timeout=0.5, stop=None), list[JobHandle])
    assert_type(queue.jobs("worker"), Iterator[JobHandle])
    for handle in queue.jobs("worker", stop=stop):
        assert_type(handle, JobHandle)


def settling_many(queue: Queue, handles: list[JobHandle]) -> None:
    """Whatever can be iterated over."""
    assert_type(queue.ack_many(handles), int)
    assert_type(queue.ack_many(handle for handle in handles if handle.attempt > 1), int)
    assert_type(queue.heartbeat_many(set(handles)), int)
    assert_type(queue.heartbeat_many(tuple(handles), timedelta(minutes=1)), int)
    assert_type(queue.heartbeat_many(handles, at_least=90), int)


def looking_into_a_queue(queue: Queue) -> None:
    """Counts, live jobs, and one that is taken back."""
    assert_type(queue.size(), int)
    assert_type(queue.stats(), QueueStats)
    assert_type(queue.peek(), list[Job])
    assert_type(queue.peek(limit=5), list[Job])
    assert_type(queue.cancel(1), bool)


def dead_letters(queue: Queue) -> None:
    """Page by page, by id, and by age."""
    page = queue.dead()
    while page:
        assert_type(page, list[DeadJob])
        page = queue.dead(10, after=page[-1])
    assert_type(queue.requeue([1, 2]), int)
    assert_type(queue.requeue(range(5)), int)
    assert_type(queue.purge(), int)
    assert_type(queue.purge((1, 2), older_than=timedelta(days=7)), int)
    assert_type(queue.purge(ids=None, older_than=3600), int)


def what_a_handle_tells(handle: JobHandle) -> None:
    """A handle is read ..."""
    assert_type(handle.id, int)
    assert_type(handle.queue, str)
    assert_type(handle.payload, Any)
    assert_type(handle.raw, bytes)
    assert_type(handle.attempt, int)
    assert_type(handle.max_attempts, int)
    assert_type(handle.visibility_timeout, float)
    assert_type(handle.enqueued_at, datetime)
    assert_type(handle.schedule, str | None)
    assert_type(handle.scheduled_for, datetime | None)
    assert_type(handle.lost, bool)
    assert_type(handle.settled, bool)


def settling_a_handle(handle: JobHandle, error: Exception) -> None:
    """... and settled, with any error."""
    assert_type(handle.ack(), bool)
    assert_type(handle.retry(error), bool)
    assert_type(handle.retry("by hand", 1.5), bool)
    assert_type(handle.retry(error, delay=timedelta(minutes=5)), bool)
    assert_type(handle.fail(error), bool)
    assert_type(handle.fail("never"), bool)
    assert_type(handle.release(), bool)
    assert_type(handle.heartbeat(), bool)
    assert_type(handle.heartbeat(60), bool)
    assert_type(handle.heartbeat(extend=timedelta(minutes=1)), bool)


def a_live_job(job: Job) -> None:
    """A value, whole."""
    assert_type(job.id, int)
    assert_type(job.queue, str)
    assert_type(job.state, Literal["pending", "processing"])
    assert_type(job.payload, Any)
    assert_type(job.raw, bytes)
    assert_type(job.stored, Payload)
    assert_type(job.priority, int)
    assert_type(job.run_at, datetime)
    assert_type(job.expires_at, datetime | None)
    assert_type(job.attempts, int)
    assert_type(job.max_attempts, int)
    assert_type(job.visibility_timeout, timedelta)
    assert_type(job.base_backoff, timedelta)
    assert_type(job.worker_id, str | None)
    assert_type(job.claim_expires_at, datetime | None)
    assert_type(job.schedule, str | None)
    assert_type(job.scheduled_for, datetime | None)
    assert_type(job.enqueued_at, datetime)


def a_dead_letter(dead: DeadJob) -> None:
    """A value, with its end."""
    assert_type(dead.id, int)
    assert_type(dead.queue, str)
    assert_type(dead.payload, Any)
    assert_type(dead.raw, bytes)
    assert_type(dead.stored, Payload)
    assert_type(dead.priority, int)
    assert_type(dead.attempts, int)
    assert_type(dead.max_attempts, int)
    assert_type(dead.visibility_timeout, timedelta)
    assert_type(dead.base_backoff, timedelta)
    assert_type(dead.error, str)
    assert_type(dead.schedule, str | None)
    assert_type(dead.scheduled_for, datetime | None)
    assert_type(dead.enqueued_at, datetime)
    assert_type(dead.died_at, datetime)


def counts(stats: QueueStats) -> None:
    """How a queue stands."""
    assert_type(stats.ready, int)
    assert_type(stats.delayed, int)
    assert_type(stats.retrying, int)
    assert_type(stats.running, int)
    assert_type(stats.dead, int)
    assert_type(stats.oldest_ready_age, timedelta | None)
    assert_type(stats.estimated, bool)
