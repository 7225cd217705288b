"""The store: builds the parts over its tables and hands out the mechanisms."""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import partial
from types import TracebackType
from typing import Any

from alkstore._typing import Self, Unpack, override
from alkstore.arguments import Seconds, positive_int
from alkstore.memory.access import Access
from alkstore.memory.clock import Clock
from alkstore.memory.data import MemoryData
from alkstore.memory.forks import Alive
from alkstore.memory.inspection import Inspection
from alkstore.memory.jobs import new_job
from alkstore.memory.leader import Leading
from alkstore.memory.listener import MemoryListener
from alkstore.memory.locks import Locks
from alkstore.memory.outbox import MemoryOutbox
from alkstore.memory.queue import MemoryQueue, check_id
from alkstore.memory.runners import scheduler_runner
from alkstore.memory.schedules import Schedules
from alkstore.memory.settings import MemoryOptions, resolve_memory
from alkstore.memory.transaction import MemoryTransaction, join
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

_MOST_THREADS = 1_000


class MemoryStore:
    """The `Store` that needs no server: everything is in the memory of this process.

    For tests and for a first look. It keeps the same contract as the other engines, but
    nothing outlives the process, and a forked child has a copy of its own: what either of
    the two does later, the other never sees.

    Args:
        **options: See `MemoryOptions`.

    Raises:
        InvalidOption: An option is unknown or impossible, or *clock* and *data* were both
            given.
    """

    def __init__(self, **options: Unpack[MemoryOptions]) -> None:
        settings = resolve_memory(options)
        self._access = Access(settings.data, settings.codec, settings.max_payload_bytes)
        self._locks = Locks(self._access)
        self._schedules = Schedules(self._access)
        self._leading = Leading(self._access, self._schedules)
        self._runners = StartedRunners(
            partial(scheduler_runner, self._access, self._leading, self._schedules)
        )
        _stores.add(self)

    def sibling(self) -> MemoryStore:
        """Return another store over the same tables, as another process would have one.

        It has runners of its own, and is closed by itself.
        """
        return MemoryStore(
            codec=self._access.codec,
            max_payload_bytes=self._access.max_payload_bytes,
            data=self._access.data,
        )

    @property
    def data(self) -> MemoryData:
        """The tables."""
        return self._access.data

    @property
    def clock(self) -> Clock:
        """The store clock."""
        return self._access.data.clock

    # Queues and outboxes.

    def queue(self, name: str, **options: Unpack[QueueOptions]) -> Queue:
        """Return a handle of the queue *name*; see `Store.queue`."""
        return self._queue(check_name(name, "queue"), resolve_queue(options))

    def outbox(self, name: str) -> Outbox:
        """Return a handle of the outbox *name*; see `Store.outbox`."""
        backing = self._queue(outbox_queue(name), OUTBOX_STAMPS)
        return MemoryOutbox(check_name(name, "outbox"), backing)

    def get_job(self, job_id: int) -> Job | None:
        """Return a live job whole, or ``None``."""
        return Inspection(self._access).get_job(check_id(job_id))

    def _queue(self, name: str, stamps: Stamps) -> MemoryQueue:
        self._access.check_open()
        return MemoryQueue(name, stamps, self._access)

    # Transactions.

    @one_block
    def transaction(self) -> Iterator[MemoryTransaction]:
        """Lend a transaction, for the ``*_tx`` calls; see `Store.transaction`."""
        self._access.check_open()
        tx = MemoryTransaction(self._access.data)
        try:
            yield tx
        except BaseException:
            if not tx.has_ended:
                tx.rollback()
            raise
        if not tx.has_ended:
            tx.commit()

    def enqueue_tx(
        self, tx: Any, queue: str, payload: Any, **options: Unpack[EnqueueOptions]
    ) -> int:
        """Enqueue inside a transaction; see `Store.enqueue_tx`."""
        return self._enqueue_tx(tx, check_name(queue, "queue"), QUEUE_DEFAULTS, payload, options)

    def outbox_enqueue_tx(
        self, tx: Any, outbox: str, payload: Any, **options: Unpack[EnqueueOptions]
    ) -> int:
        """Store an outbox message inside a transaction."""
        return self._enqueue_tx(tx, outbox_queue(outbox), OUTBOX_STAMPS, payload, options)

    def _enqueue_tx(
        self, tx: Any, queue: str, stamps: Stamps, payload: Any, options: EnqueueOptions
    ) -> int:
        resolved = resolve_enqueue(options, stamps)
        raw = self._access.encode(payload)
        self._access.check_open()
        joined = join(tx, self._access.data)
        with self._access.tables() as data:
            job = new_job(data, queue, raw, resolved)
            joined.add_job(job)
            return job.id

    def notify_tx(self, tx: Any, channel: str) -> None:
        """Send a wake that is heard when *tx* commits; see `Store.notify_tx`."""
        name = check_name(channel, "channel")
        self._access.check_open()
        join(tx, self._access.data).add_wake(name)

    # Wakes.

    def notify(self, channel: str) -> None:
        """Send a wake now."""
        name = check_name(channel, "channel")
        with self._access.tables() as data:
            data.wakes.wake(name)

    def listen(self, *channels: str) -> Listener:
        """Return a listener of *channels*."""
        return MemoryListener(self._access, channels)

    # Locks.

    def try_lock(
        self, name: str, ttl: Seconds, owner: str | None = None, *, keep_alive: bool = False
    ) -> LockHandle | None:
        """Take a lock if it is free; see `Store.try_lock`."""
        return self._locks.try_lock(name, ttl, owner, keep_alive=keep_alive)

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
        return self._locks.lock(name, ttl, timeout, stop, owner, keep_alive=keep_alive)

    # Schedules.

    def schedule(
        self, name: str, spec: str, queue: str, payload: Any, **options: Unpack[ScheduleOptions]
    ) -> Schedule:
        """Register or change a schedule; see `Scheduler.schedule`."""
        return self._schedules.schedule(name, spec, queue, payload, **options)

    def unschedule(self, name: str) -> bool:
        """Remove a schedule; return whether there was one."""
        return self._schedules.unschedule(name)

    def schedules(self) -> list[Schedule]:
        """Return all schedules by name."""
        return self._schedules.schedules()

    def get_schedule(self, name: str) -> Schedule | None:
        """Return one schedule, or ``None``."""
        return self._schedules.get_schedule(name)

    def pause(self, name: str) -> bool:
        """Fire nothing for it until it is resumed; return whether there is such a one."""
        return self._schedules.pause(name)

    def resume(self, name: str) -> bool:
        """Go on at the first boundary after now; return whether there is such a one."""
        return self._schedules.resume(name)

    def run_now(self, name: str) -> int:
        """Fire one extra job and return its id; see `Scheduler.run_now`."""
        return self._schedules.run_now(name)

    def run_schedules(self, stop: StopToken) -> None:
        """Lead until *stop* is cancelled; see `Scheduler.run_schedules`."""
        check_stop(stop)
        self._access.check_open()
        self._leading.run(stop)

    def tick(self) -> int:
        """Fire everything that is due now, whoever leads, for tests that step the time.

        What a tick of a leader does, in one go: each boundary fires once, whoever ticks.

        Returns:
            How many jobs were stored.
        """
        return self._schedules.tick()

    # Runner threads.

    def start_scheduler(self) -> Runner:
        """Start the scheduler thread, or return the one that runs already."""
        self._access.check_open()
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
        return self._access.closed

    def close(self) -> None:
        """Stop the runners, quietly, and refuse everything from now on. May be repeated.

        The tables stay for as long as another store, or the application, holds them.
        """
        if self._access.closed:
            return
        self._runners.stop()
        self._leading.stop_all()
        self._access.close()

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

    def after_fork(self) -> None:
        """Leave the threads to the parent; the tables are a copy."""
        self._leading.after_fork()
        self._runners.after_fork()

    @override
    def __repr__(self) -> str:
        """Show how much is in it."""
        data = self._access.data
        closed = " closed" if self._access.closed else ""
        return f"<{type(self).__name__}{closed}: {len(data.jobs)} jobs, {len(data.dead)} dead>"


_stores: Alive[MemoryStore] = Alive()


def _after_fork() -> None:
    for store in _stores.all():
        store.after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
