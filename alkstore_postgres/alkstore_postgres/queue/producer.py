"""Storing jobs: one, many, or inside the caller's transaction."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from itertools import islice
from typing import Any, NamedTuple

from alkstore.codec import Codec, encode_payload
from alkstore.errors import DatabaseError
from alkstore.options import QUEUE_DEFAULTS, Enqueue, resolve_enqueue
from alkstore_postgres.database.arrays import ByteaArray
from alkstore_postgres.database.database import Database
from alkstore_postgres.database.errors import NOTIFY_QUEUE_FULL
from alkstore_postgres.database.seam import Joined
from alkstore_postgres.database.session import Session
from alkstore_postgres.database.statements import Statements
from alkstore_postgres.queue.claim_places import ClaimPlaces
from alkstore_postgres.wakes.sender import CARRIES, WakeSender

_ROWS_A_STATEMENT = 5_000

_INSERTS = ("enqueue", "enqueue_and_wake", "enqueue_and_ask")


class Order(NamedTuple):
    """How some jobs are stored: everything but their payloads.

    Attributes:
        queue: Where they go.
        priority: Their priority.
        params: The parameters of the statements.
        insert: The statement that stores one job.
        insert_and_wake: The same, with a wake in its transaction.
        insert_and_ask: The same, with a wake when some other job is gone.
        due: Whether they can be claimed as soon as they are stored.
        early: Whether their due time was given, and so may be long ago.
    """

    queue: str
    priority: int
    params: dict[str, Any]
    insert: bytes
    insert_and_wake: bytes
    insert_and_ask: bytes
    due: bool
    early: bool


class Producer:
    """Writes jobs. Everything that can be refused was refused before it is called.

    Args:
        database: The way to the database.
        wakes: Sends and merges the wakes.
        codec: Encodes payloads.
        max_payload_bytes: The largest encoded payload.
        places: Told of jobs that belong before them.

    Attributes:
        encode: Returns a payload as it is stored; raises what `encode_payload` raises.
    """

    def __init__(
        self,
        database: Database,
        wakes: WakeSender,
        codec: Codec,
        max_payload_bytes: int,
        places: ClaimPlaces,
    ) -> None:
        self._database = database
        self._wakes = wakes
        self.encode: Callable[[Any], bytes] = partial(
            encode_payload, codec, max_bytes=max_payload_bytes
        )
        self._places = places
        self._sql = Statements(__package__, "enqueue.sql", database.schema)
        # Most jobs are stored with nothing given: without seven parameters that is quicker.
        self._usual = resolve_enqueue({}, QUEUE_DEFAULTS)
        usual = {"run_at": None, **_numbers(self._usual)}
        self._usual_inserts = tuple(self._sql.with_numbers(name, usual) for name in _INSERTS)
        self._inserts = tuple(self._sql[name] for name in _INSERTS)

    def order(self, queue: str, options: Enqueue) -> Order:
        """Return what all enqueues into *queue* with these *options* have in common."""
        insert, and_wake, and_ask = self._usual_inserts if options == self._usual else self._inserts
        return Order(
            queue,
            options.priority,
            due=options.run_at is None and not options.delay,
            early=options.run_at is not None,
            insert=insert,
            insert_and_wake=and_wake,
            insert_and_ask=and_ask,
            params={
                "queue": queue,
                "channel": self._wakes.channel,
                "run_at": options.run_at,
                **_numbers(options),
            },
        )

    def enqueue(self, order: Order, raw: bytes) -> int:
        """Store one job in a transaction of its own; return its id."""
        queue = order.queue
        params = {**order.params, "payload": raw}
        begun = self._wakes.begin(queue, due=order.due)
        job_id: int
        if begun is None:
            job_id, woken = self._database.fetch_value(order.insert, params), False
        else:
            job_id, woken = self._insert_and_wake(order, params, begun)
        self._places.stored(queue, order.priority, early=order.early)
        (self._wakes.carried if woken else self._wakes.merged)(queue, job_id if order.due else None)
        return job_id

    def _insert_and_wake(
        self, order: Order, params: dict[str, Any], begun: int
    ) -> tuple[int, bool]:
        """Store one job as `WakeSender.begin` says; return its id, and whether its wake is sent."""
        try:
            if begun is CARRIES:
                return self._database.fetch_value(order.insert_and_wake, params), True
            row = self._database.fetch_one(order.insert_and_ask, params | {"told": begun})
            assert row is not None  # noqa: S101 - it returns the job that it has stored
            return row[0], row[1]
        except DatabaseError as error:
            if error.sqlstate != NOTIFY_QUEUE_FULL:
                raise
        # Nothing was stored: the full notification queue is told at the commit. A wake is only a
        # hint, so the job is stored without one.
        return self._database.fetch_value(order.insert, params), True

    def enqueue_many(self, order: Order, raws: Sequence[bytes]) -> list[int]:
        """Store a job for each of *raws* in one transaction; return the ids in order."""
        if not raws:
            self._database.check_open()
            return []
        params = order.params

        def insert(session: Session) -> list[int]:
            ids: list[int] = []
            for chunk in _chunks(raws, _ROWS_A_STATEMENT):
                rows = session.fetch_all(self._sql["enqueue_many"], params | {"payloads": chunk})
                ids.extend(row[0] for row in rows)
            return ids

        if len(raws) <= _ROWS_A_STATEMENT:  # one statement is a transaction
            whole = params | {"payloads": ByteaArray(raws)}
            ids = [row[0] for row in self._database.fetch_all(self._sql["enqueue_many"], whole)]
        else:
            ids = self._database.run(insert)
        self._places.stored(order.queue, order.priority, early=order.early)
        self._wakes.merged(order.queue, ids[-1] if order.due else None)
        return ids

    def enqueue_in(self, session: Joined, order: Order, raw: bytes) -> int:
        """Store one job inside the caller's transaction, its wake included."""
        params = {**order.params, "payload": raw}
        job_id: int = session.fetch_value(order.insert_and_wake, params)
        return job_id

    def wake(self, queue: str) -> None:
        """Tell that dead letters of *queue* became claimable, the wake merged in time."""
        self._places.forget(queue)
        self._wakes.merged(queue)


def _numbers(options: Enqueue) -> dict[str, float | None]:
    """Return the parameters that are numbers."""
    return {
        "priority": options.priority,
        "delay": options.delay,
        "expires": options.expires,
        "max_attempts": options.stamps.max_attempts,
        "visibility_timeout": options.stamps.visibility_timeout,
        "base_backoff": options.stamps.base_backoff,
    }


def _chunks(items: Iterable[bytes], size: int) -> Iterable[ByteaArray]:
    rest = iter(items)
    while chunk := ByteaArray(islice(rest, size)):
        yield chunk
