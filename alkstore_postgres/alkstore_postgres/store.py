"""The store: builds the parts over one pool and hands out the mechanisms. It holds no SQL."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from types import TracebackType
from typing import Any

import psycopg

from alkstore._typing import Self, Unpack
from alkstore.arguments import Seconds, positive_int
from alkstore.names import check_name, outbox_queue
from alkstore.one_block import one_block
from alkstore.options import (
    OUTBOX_STAMPS,
    QUEUE_DEFAULTS,
    EnqueueOptions,
    QueueOptions,
    ScheduleOptions,
    Stamps,
    resolve_enqueue,
    resolve_queue,
)
from alkstore.runners import StartedRunners
from alkstore.runners.work import check_work
from alkstore.stop_token import StopToken, check_stop
from alkstore.traits import Delivery, Handler, Listener, LockHandle, Outbox, Queue, Runner
from alkstore.values import Job, Schedule
from alkstore_postgres.database.pools import AnyPool, Pools, check_pool
from alkstore_postgres.database.seam import join
from alkstore_postgres.living import Life
from alkstore_postgres.outbox.outbox import PostgresOutbox
from alkstore_postgres.parts import Parts
from alkstore_postgres.queue.queue import PostgresQueue, check_id
from alkstore_postgres.runners import scheduler_runner
from alkstore_postgres.scheduler.leader import TTL
from alkstore_postgres.scheduler.tick import Ticker
from alkstore_postgres.schema.migrator import Migrator
from alkstore_postgres.settings import (
    DEFAULT_SCHEMA,
    OpenOptions,
    Settings,
    StoreOptions,
    check_conninfo,
    resolve_settings,
    split_pool_settings,
)
from alkstore_postgres.wakes.connect import connector_beside
from alkstore_postgres.wakes.listener import check_channels, listen


class PostgresStore:
    """The `Store` of this engine, over a pool that the application lends.

    The pool is used as it is and handed back as it was: any row factory, autocommit or
    not, any prepare setting, any size from one. `close` leaves it open. Use
    `alkstore_postgres.open` for a store with a pool of its own.

    Args:
        pool: A psycopg `ConnectionPool`.
        schema: The schema that holds alkstore's tables, unquoted.
        **options: See `StoreOptions`.

    Raises:
        InvalidOption: An option is unknown or impossible; nothing was connected.
        SchemaError: The schema does not fit (with ``migrate=False``: is outdated).
        DatabaseError: The database could not be reached.
    """

    def __init__(
        self, pool: AnyPool, schema: str = DEFAULT_SCHEMA, **options: Unpack[StoreOptions]
    ) -> None:
        self._build(Pools(check_pool(pool), "", {}), resolve_settings(schema, options))

    def _build(self, pools: Pools, settings: Settings) -> None:
        direct = connector_beside(pools.lent, settings.listen_conninfo or pools.conninfo)
        self._pools = pools
        self._made = Parts(pools, settings, direct)
        self._prepare_schema(settings)
        self._runners = StartedRunners(partial(scheduler_runner, self._made))
        self._life = Life(self._made, self._runners)

    @property
    def _parts(self) -> Parts:
        """The parts of a store that is open.

        Whatever may be refused for its arguments is checked before: a mistake in the program
        is told the same way before and after the end of the store.
        """
        self._pools.check_open()
        return self._made

    def _prepare_schema(self, settings: Settings) -> None:
        with self._parts.borrow() as connection:
            migrator = Migrator(connection, settings.schema)
            if settings.migrate:
                migrator.migrate()
            else:
                migrator.require()

    # Queues and outboxes.

    def queue(self, name: str, **options: Unpack[QueueOptions]) -> Queue:
        """Return a handle of the queue *name*; see `Store.queue`."""
        return self._queue(check_name(name, "queue"), resolve_queue(options))

    def outbox(self, name: str) -> Outbox:
        """Return a handle of the outbox *name*; see `Store.outbox`."""
        backing = self._queue(outbox_queue(name), OUTBOX_STAMPS)
        return PostgresOutbox(check_name(name, "outbox"), backing)

    def get_job(self, job_id: int) -> Job | None:
        """Return a live job whole, or ``None``."""
        return self._made.queues.inspector.get_job(check_id(job_id))

    def _queue(self, name: str, stamps: Stamps) -> PostgresQueue:
        return PostgresQueue(name, stamps, self._parts.queues)

    # The transaction seam.

    @one_block
    def transaction(self) -> Iterator[psycopg.Connection[Any]]:
        """Lend a pooled connection inside a transaction; see `Store.transaction`."""
        with self._parts.database.lend() as connection:
            yield connection

    def enqueue_tx(
        self, tx: Any, queue: str, payload: Any, **options: Unpack[EnqueueOptions]
    ) -> int:
        """Enqueue inside the caller's transaction; see `Store.enqueue_tx`."""
        return self._enqueue_tx(tx, check_name(queue, "queue"), QUEUE_DEFAULTS, payload, options)

    def outbox_enqueue_tx(
        self, tx: Any, outbox: str, payload: Any, **options: Unpack[EnqueueOptions]
    ) -> int:
        """Store an outbox message inside the caller's transaction."""
        return self._enqueue_tx(tx, outbox_queue(outbox), OUTBOX_STAMPS, payload, options)

    def _enqueue_tx(
        self, tx: Any, queue: str, stamps: Stamps, payload: Any, options: EnqueueOptions
    ) -> int:
        resolved = resolve_enqueue(options, stamps)
        raw = self._made.queues.producer.encode(payload)
        producer = self._parts.queues.producer
        return producer.enqueue_in(join(tx), producer.order(queue, resolved), raw)

    def notify_tx(self, tx: Any, channel: str) -> None:
        """Send a wake that is heard when *tx* commits; see `Store.notify_tx`."""
        name = check_name(channel, "channel")
        self._parts.sender.send_in(join(tx), name)

    # Wakes.

    def notify(self, channel: str) -> None:
        """Send a wake now."""
        self._made.sender.send_now(check_name(channel, "channel"))

    def listen(self, *channels: str) -> Listener:
        """Return a listener of *channels*."""
        names = check_channels(channels)
        return listen(self._parts.hub, names)

    # Locks.

    def try_lock(
        self, name: str, ttl: Seconds, owner: str | None = None, *, keep_alive: bool = False
    ) -> LockHandle | None:
        """Take a lock if it is free; see `Store.try_lock`."""
        return self._made.locks.try_lock(name, ttl, owner, keep_alive=keep_alive)

    def lock(
        self,
        name: str,
        ttl: Seconds,
        timeout: Seconds | None = None,
        stop: StopToken | None = None,
        owner: str | None = None,
        *,
        keep_alive: bool = False,
    ) -> LockHandle:
        """Take a lock, waiting until it is free; see `Store.lock`."""
        return self._made.locks.lock(name, ttl, timeout, stop, owner, keep_alive=keep_alive)

    # Schedules.

    def schedule(
        self, name: str, spec: str, queue: str, payload: Any, **options: Unpack[ScheduleOptions]
    ) -> Schedule:
        """Register or change a schedule; see `Scheduler.schedule`."""
        return self._made.registry.schedule(name, spec, queue, payload, **options)

    def unschedule(self, name: str) -> bool:
        """Remove a schedule; return whether there was one."""
        return self._made.registry.unschedule(name)

    def schedules(self) -> list[Schedule]:
        """Return all schedules by name."""
        return self._parts.registry.schedules()

    def get_schedule(self, name: str) -> Schedule | None:
        """Return one schedule, or ``None``."""
        return self._made.registry.get_schedule(name)

    def pause(self, name: str) -> bool:
        """Fire nothing for it until it is resumed; return whether there is such a one."""
        return self._made.registry.pause(name)

    def resume(self, name: str) -> bool:
        """Go on at the first boundary after now; return whether there is such a one."""
        return self._made.registry.resume(name)

    def run_now(self, name: str) -> int:
        """Fire one extra job and return its id; see `Scheduler.run_now`."""
        return self._made.registry.run_now(name)

    def run_schedules(self, stop: StopToken) -> None:
        """Lead until *stop* is cancelled; see `Scheduler.run_schedules`."""
        check_stop(stop)
        self._parts.lead(stop)

    def tick(self) -> int:
        """Fire everything that is due now, whoever leads, and return how many jobs that were.

        For tests and for programs that are started from outside, by cron for one. A tick
        of the leader and this one never fire the same boundary.

        Raises:
            DatabaseError: The database failed; what was fired before stays.
        """
        parts = self._parts
        return Ticker(parts.database, parts.leases, parts.sender.channel, TTL).tick(None).fired

    # Runner threads.

    def start_scheduler(self) -> Runner:
        """Start the scheduler thread, or return the one that runs already."""
        return self._runners.scheduler()

    def start_worker(
        self, queue: str, handler: Handler, concurrency: int = 1, **options: Unpack[QueueOptions]
    ) -> Runner:
        """Start threads that work on *queue*; see `Store.start_worker`."""
        name = check_name(queue, "queue")
        stamps = resolve_queue(options)
        count = positive_int(concurrency, "concurrency", most=_MOST_THREADS)
        check_work(handler, "handler")
        return self._runners.worker(self._queue(name, stamps), handler, count)

    def start_outbox(self, name: str, delivery: Delivery, concurrency: int = 1) -> Runner:
        """Start threads that deliver the messages of the outbox *name*."""
        name = check_name(name, "outbox")
        count = positive_int(concurrency, "concurrency", most=_MOST_THREADS)
        check_work(delivery, "delivery")
        backing = self._queue(outbox_queue(name), OUTBOX_STAMPS)
        return self._runners.outbox(name, backing, delivery, count)

    # The end.

    @property
    def closed(self) -> bool:
        """Whether `close` was called."""
        return self._pools.closed

    def close(self) -> None:
        """Stop the runners, quietly, and close what the store opened. May be repeated."""
        if self._pools.closed:
            return
        self._runners.stop()
        self._made.stop_leading()
        self._made.close()
        self._life.over()

    def __enter__(self) -> Self:
        """Return the store."""
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Close it."""
        self.close()


_MOST_THREADS = 1_000


def open_store(conninfo: str, schema: str, options: OpenOptions) -> PostgresStore:
    """Return a store with a pool of its own; see `alkstore_postgres.open`."""
    pool_options, rest = split_pool_settings(options)
    settings = resolve_settings(schema, rest)
    pools = Pools(None, check_conninfo(conninfo), pool_options.arguments())
    store = PostgresStore.__new__(PostgresStore)
    store._build(pools, settings)  # noqa: SLF001 - the other way to make one
    return store
