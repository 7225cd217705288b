"""Uses of outboxes that every type checker must accept. Checked, never run."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

from typing_extensions import assert_type

from alkstore import (
    DeadJob,
    Delivery,
    EnqueueOptions,
    Job,
    JobHandle,
    Outbox,
    QueueStats,
    StopToken,
    Store,
)

SOON = datetime.now(timezone.utc) + timedelta(minutes=5)


def a_store_gives_outboxes(store: Store) -> None:
    """By name alone: the stamps are fixed."""
    assert_type(store.outbox("events"), Outbox)


def storing_messages(outbox: Outbox, options: EnqueueOptions) -> None:
    """The options are those of a queue."""
    assert_type(outbox.name, str)
    assert_type(outbox.enqueue({"id": 1}), int)
    assert_type(outbox.enqueue(None, run_at=SOON, max_attempts=9), int)
    assert_type(outbox.enqueue("x", **options), int)


def deliver(handle: JobHandle) -> str:
    """Deliver; what a delivery returns is not kept."""
    return str(handle.id)


class Sender:
    """Any object that can be called with a handle is a delivery."""

    def __call__(self, handle: JobHandle, /) -> None:
        """Deliver."""
        handle.heartbeat()


def deliveries() -> list[Delivery]:
    """Functions, objects, and what takes anything."""
    return [deliver, Sender(), print, lambda handle: handle.payload]


def delivering(outbox: Outbox, delivery: Delivery, stop: StopToken) -> None:
    """One message, or one after the other."""
    assert_type(outbox.run_once("worker", delivery), bool)
    assert_type(outbox.run_once("worker", lambda handle: handle.raw), bool)
    outbox.run("worker", Sender(), stop)
    outbox.run(worker_id="worker", delivery=deliver, stop=stop)


def looking_into_an_outbox(outbox: Outbox) -> None:
    """As into a queue."""
    assert_type(outbox.peek(), list[Job])
    assert_type(outbox.peek(limit=5), list[Job])
    assert_type(outbox.stats(), QueueStats)
    page = outbox.dead(10)
    assert_type(page, list[DeadJob])
    assert_type(outbox.dead(limit=10, after=page[-1]), list[DeadJob])
    assert_type(outbox.requeue([1, 2]), int)
    assert_type(outbox.purge(), int)
    assert_type(outbox.purge([1, 2], older_than=timedelta(days=7)), int)
