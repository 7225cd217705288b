"""The two engines side by side: every call goes to both, and both must answer alike."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from typing import Any, Generic, NamedTuple, TypeVar

from psycopg import sql

from alkstore import (
    AlkstoreError,
    InvalidSpec,
    Job,
    JobHandle,
    LockHandle,
    ScheduleQuarantined,
    Store,
)
from alkstore.memory import ManualClock, MemoryStore
from alkstore.values import Schedule
from alkstore_postgres import PostgresStore
from alkstore_postgres.queue.claim_streaks import ClaimStreaks
from tests.support.postgres_harness import PostgresHarness
from tests.support.schedules import ScheduleTable

T = TypeVar("T")

START = datetime(2030, 1, 1, 12, 0, 0, 123_457, tzinfo=timezone.utc)
"""Where the store clock of both stands at the beginning."""

STORES = 2
"""How many stores each engine has over its one set of tables."""

# These tell what is wrong in each engine's own words.
_OWN_WORDS = (InvalidSpec, ScheduleQuarantined)


@dataclasses.dataclass(frozen=True)
class Pair(Generic[T]):
    """The same thing of the memory engine and of the Postgres engine."""

    memory: T
    postgres: T


class Stores(NamedTuple):
    """A store of each."""

    memory: MemoryStore
    postgres: PostgresStore


class Disagreement(AssertionError):
    """The engines answered differently."""


class TwoEngines:
    """A memory store and a Postgres store over empty tables, with one time.

    Args:
        harness: The Postgres engine with hands on its clock; used again and again.
        postgres: Its stores. One that is closed is replaced there too.
    """

    def __init__(self, harness: PostgresHarness, postgres: list[PostgresStore]) -> None:
        self.clock = ManualClock(START)
        self.closed = 0
        self._harness = harness
        self._postgres = postgres
        for number, store in enumerate(postgres):
            if store.closed:  # by a run that failed before it opened another one
                postgres[number] = harness.open()
        first = MemoryStore(clock=self.clock)
        memory = [first, *(first.sibling() for _ in postgres[1:])]
        self.stores = [Stores(*stores) for stores in zip(memory, postgres, strict=True)]
        self.data = first.data
        self.schedule_table = ScheduleTable(harness._connection, harness.schema)
        self._reset()

    def _reset(self) -> None:
        tables = [sql.Identifier(self._harness.schema, name) for name in _TABLES]
        self._harness._connection.execute(
            sql.SQL("TRUNCATE {} RESTART IDENTITY").format(sql.SQL(",").join(tables))
        )
        self._harness._run("UPDATE {schema}.clock SET at = {start}", start=sql.Literal(START))
        for store in self.stores:
            # What an earlier run has taught it would choose other statements.
            store.postgres._parts.queues.claimer._streaks = ClaimStreaks()

    def replace(self, number: int) -> Stores:
        """Open another one in the place of the stores *number*, which are closed; return it."""
        self.closed += 1
        self._postgres[number] = self._harness.open()
        self.stores[number] = Stores(self.stores[number].memory.sibling(), self._postgres[number])
        return self.stores[number]

    def close(self) -> None:
        """Close what belongs to this run alone."""
        for store in self.stores:
            store.memory.close()

    # -- time

    def advance(self, by: timedelta) -> None:
        """Let time pass. Nobody waits, so nobody is told of it."""
        self.clock.advance(by)
        row = self._harness._run(
            "UPDATE {schema}.clock SET at = at + make_interval(secs => {seconds}) RETURNING at",
            seconds=sql.Literal(by / timedelta(seconds=1)),
        ).fetchone()
        assert row == (self.clock.now(),)

    def moments(self) -> list[datetime]:
        """Return every time at which something changes by itself."""
        data = self.data
        times: list[datetime | None] = []
        for job in data.jobs.values():
            times += [job.run_at, job.expires_at, job.claim_expires_at]
        times += [lock.expires_at for lock in data.locks.values()]
        times += [schedule.next_fire_at for schedule in data.schedules.values()]
        now = self.clock.now()
        return sorted({moment for moment in times if moment is not None and moment > now})

    # -- calls

    def call(self, number: int, work: Callable[[Store], T]) -> Pair[T] | None:
        """Do *work* with the stores *number* of both.

        Returns:
            What both returned; ``None`` when both refused alike.
        """
        store = self.stores[number]
        return self.both(lambda: work(store.memory), lambda: work(store.postgres))

    def on(self, pair: Pair[T], work: Callable[[T], Any]) -> Pair[Any] | None:
        """Do *work* with both of *pair*; see `call`."""
        return self.both(lambda: work(pair.memory), lambda: work(pair.postgres))

    def both(self, memory: Callable[[], T], postgres: Callable[[], T]) -> Pair[T] | None:
        """Call both and compare; see `call`."""
        one, other = _outcome(memory), _outcome(postgres)
        if one.shown != other.shown:
            raise Disagreement("\n".join(_differences(one.shown, other.shown)))
        if isinstance(one.returned, _Refused):
            return None
        return Pair(one.returned, other.returned)

    # -- the whole visible state

    def compare(self, queues: list[str], outboxes: list[str]) -> None:
        """Compare everything that can be seen through the stores, and in the tables."""
        self.call(0, lambda store: [_look(store.queue(name)) for name in queues])
        self.call(0, lambda store: [_look(store.outbox(name)) for name in outboxes])
        self.call(0, lambda store: store.schedules())
        self.both(self._memory_jobs, self._postgres_jobs)
        self.both(self._memory_locks, self._postgres_locks)

    def job_ids(self) -> list[int]:
        """Return the ids of the live jobs."""
        return list(self.data.jobs)

    def dead_ids(self) -> list[int]:
        """Return the ids of the dead letters."""
        return list(self.data.dead)

    def registers(self, name: str, work: Callable[[Store], T], number: int) -> None:
        """Register the schedule *name*, and compare also whether anything was written."""

        def version() -> Any:
            text = "SELECT xmin::text FROM {schedules} WHERE name = %s"
            return self.schedule_table.run(text, name).fetchone()

        row, before = self.data.schedules.get(name), version()
        self.call(number, work)
        self.both(lambda: self.data.schedules.get(name) is not row, lambda: version() != before)

    def tick(self, number: int) -> None:
        """Fire what is due, without any lease."""
        store = self.stores[number]
        self.both(store.memory.tick, lambda: self._harness.tick(store.postgres))

    def _memory_jobs(self) -> list[tuple[Any, ...]]:
        found = [self.stores[0].memory.get_job(job_id) for job_id in sorted(self.job_ids())]
        return [_columns(job) for job in found if job is not None]

    def _postgres_jobs(self) -> list[tuple[Any, ...]]:
        query = sql.SQL(_JOBS).format(schema=sql.Identifier(self._harness.schema))
        return [
            (*row[:9], timedelta(seconds=row[9]), timedelta(seconds=row[10]), *row[11:])
            for row in self._rows(query)
        ]

    def _memory_locks(self) -> list[tuple[Any, ...]]:
        return [
            (name, row.token, _owner(row.owner), row.expires_at)
            for name, row in sorted(self.data.locks.items())
        ]

    def _postgres_locks(self) -> list[tuple[Any, ...]]:
        query = sql.SQL(_LOCKS).format(schema=sql.Identifier(self._harness.schema))
        return [(name, token, _owner(owner), end) for name, token, owner, end in self._rows(query)]

    def _rows(self, query: sql.Composed) -> list[tuple[Any, ...]]:
        rows = self._harness._connection.execute(query).fetchall()
        return [tuple(_utc(value) for value in row) for row in rows]


_TABLES = ("jobs", "dead_jobs", "locks", "schedules")
_JOBS = """
SELECT id, queue, payload, claim_id IS NOT NULL, priority, run_at, expires_at, attempts,
       max_attempts, visibility_timeout, base_backoff, worker_id, claim_expires_at, schedule,
       scheduled_for, enqueued_at
FROM {schema}.jobs ORDER BY id
"""
_LOCKS = """
SELECT name, token, owner, expires_at FROM {schema}.locks ORDER BY name COLLATE "C"
"""


class _Refused(NamedTuple):
    error: str
    text: str


@dataclasses.dataclass
class _Outcome:
    returned: Any
    shown: Any


def _outcome(call: Callable[[], Any]) -> _Outcome:
    try:
        returned = call()
    except (AlkstoreError, KeyboardInterrupt, SystemExit) as error:
        words = isinstance(error, _OWN_WORDS) or "Handle" in str(error)
        refused = _Refused(type(error).__name__, "" if words else str(error))
        return _Outcome(refused, refused)
    return _Outcome(returned, shown(returned))


def _differences(memory: Any, postgres: Any, where: str = "it") -> list[str]:
    """Say what differs, and only that."""
    if memory == postgres:
        return []
    both = isinstance(memory, (list, tuple)) and isinstance(postgres, (list, tuple))
    if both and len(memory) == len(postgres):
        pairs = enumerate(zip(memory, postgres, strict=True))
        parts = [_differences(*pair, f"{where}[{at}]") for at, pair in pairs]
        return [line for part in parts for line in part]
    return [f"{where}: memory   {memory!r}", f"{where}: postgres {postgres!r}"]


def shown(value: Any) -> Any:
    """Return *value* in a form that can be compared between engines."""
    if isinstance(value, (list, tuple)):
        return [shown(item) for item in value]
    if isinstance(value, Schedule):
        damaged = value.quarantine is not None
        return dataclasses.replace(value, quarantine="damaged" if damaged else None)
    if hasattr(value, "claim"):
        return _job_handle(value)
    if hasattr(value, "token"):
        return _lock_handle(value)
    return value


def _job_handle(handle: JobHandle) -> tuple[Any, ...]:
    return (
        handle.id,
        handle.queue,
        handle.raw,
        handle.payload,
        handle.attempt,
        handle.max_attempts,
        handle.visibility_timeout,
        handle.enqueued_at,
        handle.schedule,
        handle.scheduled_for,
        handle.lost,
        handle.settled,
    )


def _lock_handle(handle: LockHandle) -> tuple[Any, ...]:
    return handle.name, handle.token, _owner(handle.owner), handle.lost


def _owner(owner: str | None) -> str | None:
    """Return the owner of a lock; one that nobody gave is another one in each engine."""
    return "nobody's choice" if _DRAWN.fullmatch(owner or "") else owner


_DRAWN = re.compile("[0-9a-f]{32}")


def _look(queue: Any) -> tuple[Any, ...]:
    live = queue.size() if hasattr(queue, "size") else 0
    looks = [[_columns(job) for job in queue.peek(limit)] for limit in (10_000, 1, 2, 3)]
    return live, queue.stats(), queue.dead(10_000), looks


def _columns(job: Job) -> tuple[Any, ...]:
    return (
        job.id,
        job.queue,
        job.raw,
        job.state == "processing",
        job.priority,
        job.run_at,
        job.expires_at,
        job.attempts,
        job.max_attempts,
        job.visibility_timeout,
        job.base_backoff,
        job.worker_id,
        job.claim_expires_at,
        job.schedule,
        job.scheduled_for,
        job.enqueued_at,
    )


def _utc(value: Any) -> Any:
    return value.astimezone(timezone.utc) if isinstance(value, datetime) else value
