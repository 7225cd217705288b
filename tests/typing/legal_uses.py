"""Uses of the public names that every type checker must accept. Checked, never run."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from datetime import datetime, timedelta, timezone
from typing import Any

import psycopg
from psycopg_pool import ConnectionPool
from typing_extensions import assert_type

import alkstore
import alkstore_postgres
from alkstore import (
    Codec,
    DatabaseError,
    DeadJob,
    Delivery,
    EnqueueOptions,
    Handler,
    Job,
    JobHandle,
    LeadershipLost,
    Listener,
    LockHandle,
    Outbox,
    Queue,
    QueueOptions,
    QueueStats,
    Runner,
    RunnerHealth,
    Schedule,
    ScheduleOptions,
    Scheduler,
    StopToken,
    Store,
    Wake,
)
from alkstore.memory import ManualClock, MemoryStore
from alkstore.testing import Drained, assert_enqueued, drain, fire_due
from alkstore_postgres import PostgresStore

SOON = datetime.now(timezone.utc) + timedelta(minutes=5)


def engines_are_stores() -> list[Store]:
    """Each engine is a `Store`, and so a `Scheduler`."""
    opened = alkstore_postgres.open("postgresql:///app", schema="jobs", migrate=False, max_size=4)
    assert_type(opened, PostgresStore)
    schedulers: list[Scheduler] = [opened, MemoryStore()]
    assert schedulers
    return [opened, MemoryStore(), MemoryStore(clock=ManualClock(SOON)).sibling()]


def any_pool_can_be_lent(
    plain: ConnectionPool, typed: ConnectionPool[psycopg.Connection[dict[str, Any]]]
) -> list[PostgresStore]:
    """A pool of any row type is taken."""
    return [PostgresStore(plain), PostgresStore(typed, "schema", timeout=timedelta(seconds=3))]


def queues(store: Store) -> None:
    """Options are keywords; durations are numbers or timedeltas."""
    queue = store.queue("mail", visibility_timeout=30, max_attempts=5, base_backoff=timedelta(1))
    assert_type(queue, Queue)
    assert_type(queue.enqueue({"to": 1}), int)
    queue.enqueue(None, delay=5, priority=-1, expires=timedelta(hours=1), max_attempts=2)
    queue.enqueue("x", run_at=SOON)
    assert_type(queue.enqueue_many(range(3), delay=0.5), list[int])
    assert_type(queue.claim("worker", 10), list[JobHandle])
    assert_type(queue.claim_wait("worker", timeout=5, stop=StopToken()), list[JobHandle])
    assert_type(queue.peek(5), list[Job])
    assert_type(queue.dead(10), list[DeadJob])
    assert_type(queue.stats(), QueueStats)
    assert_type(queue.requeue([1, 2]), int)
    assert_type(queue.purge((1, 2), older_than=timedelta(days=7)), int)
    job = store.get_job(1)
    if job is not None:
        assert_type(job.run_at, datetime)
        assert_type(job.expires_at, datetime | None)


def options_can_be_kept(store: Store) -> None:
    """The options are typed dictionaries."""
    stamps: QueueOptions = {"max_attempts": 5}
    wishes: EnqueueOptions = {"priority": 3, "delay": timedelta(seconds=1)}
    grid: ScheduleOptions = {"catch_up": "latest", "starts_at": SOON}
    store.queue("mail", **stamps).enqueue(1, **wishes)
    store.schedule("report", "@every 1h", "mail", None, **grid)


def handles(store: Store) -> None:
    """A handle is iterated over, and settled."""
    for handle in store.queue("mail").jobs("worker"):
        payload = handle.payload
        assert_type(handle.raw, bytes)
        assert_type(handle.scheduled_for, datetime | None)
        if payload and handle.heartbeat(extend=timedelta(minutes=1)):
            assert_type(handle.ack(), bool)
        elif not handle.lost:
            handle.retry(ValueError("x"), delay=1.5)


def locks(store: Store) -> None:
    """A handle of a lock is a context manager."""
    handle = store.try_lock("door", ttl=10)
    if handle is not None:
        with handle as held:
            assert_type(held.token, int)
    with store.lock("door", timedelta(seconds=5), timeout=1, keep_alive=True) as lock:
        kept: LockHandle = lock
        assert not kept.lost


def schedules(store: Store) -> None:
    """Schedules are values."""
    schedule = store.schedule("report", "@every 1h", "mail", {"kind": "daily"}, priority=2)
    assert_type(schedule, Schedule)
    assert_type(schedule.next_fire_at, datetime | None)
    assert_type(store.get_schedule("report"), Schedule | None)
    try:
        store.run_schedules(StopToken().child())
    except LeadershipLost as lost:
        assert_type(lost.retry_after, float | None)
    except DatabaseError as error:
        assert_type(error.sqlstate, str | None)


def outboxes(store: Store, outbox: Outbox) -> None:
    """A delivery is any callable that takes a handle."""

    def delivery(handle: JobHandle) -> str:
        return str(handle.id)

    class Sender:
        def __call__(self, handle: JobHandle, /) -> None:
            handle.heartbeat()

    deliveries: list[Delivery] = [delivery, Sender(), lambda handle: handle.payload]
    for each in deliveries:
        assert_type(outbox.run_once("worker", each), bool)
    runner = store.start_outbox("mail", Sender(), concurrency=2)
    assert_type(runner, Runner)


def runners(store: Store) -> None:
    """A handler is any callable that takes a handle."""
    handlers: list[Handler] = [print, lambda handle: handle.ack()]
    for handler in handlers:
        runner = store.start_worker("mail", handler, concurrency=3, visibility_timeout=60)
        assert_type(runner.health(), RunnerHealth)
        assert_type(runner.stop(timeout=5), bool)


def transactions(store: Store, connection: psycopg.Connection[Any]) -> None:
    """Whatever joins is taken; the engine looks at it when it runs."""
    with store.transaction() as tx:
        assert_type(store.enqueue_tx(tx, "mail", 1, delay=5), int)
    with connection.transaction(), connection.cursor() as cursor:
        store.outbox_enqueue_tx(cursor, "mail", 1, max_attempts=2)
        store.notify_tx(connection, "news")


def lent_by_the_engine(store: PostgresStore) -> None:
    """The PostgreSQL engine says what it lends."""
    with store.transaction() as tx:
        assert_type(tx, psycopg.Connection[Any])


def wakes(store: Store) -> Iterator[Wake]:
    """A listener is a context manager, closable, and iterable."""
    with store.listen("news", "sport") as listener:
        assert_type(listener.wait(timeout=1), Wake | None)
        yield from listener
    with closing(store.listen("news")) as another:
        ear: Listener = another
        ear.wait()


class RawCodec:
    """A codec needs no base class."""

    def encode(self, value: Any) -> bytes:
        """Return the bytes."""
        return bytes(value)

    def decode(self, raw: bytes) -> Any:
        """Return the value."""
        return raw


def codecs() -> None:
    """Each engine takes a codec."""
    codec: Codec = RawCodec()
    MemoryStore(codec=codec)
    alkstore_postgres.open("", codec=RawCodec())


def tests_of_applications(store: Store) -> None:
    """The helpers take any store."""
    assert_type(assert_enqueued(store.queue("mail"), {"to": 1}, count=1, priority=5), list[Job])
    assert_enqueued(store.outbox("mail"))
    assert_type(drain(store, "mail", print), Drained)
    assert_type(fire_due(store, by=timedelta(hours=1)), int)
    assert alkstore.__version__
