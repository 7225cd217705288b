"""Reading jobs and counting them."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from psycopg.rows import TupleRow

from alkstore.codec import Codec, Decoder
from alkstore.values import Job, Payload, QueueStats
from alkstore_postgres.database.database import Database
from alkstore_postgres.database.session import Session
from alkstore_postgres.database.statements import Statements

MOST_COUNTED = 20_000
"""So many jobs of each kind are counted; what is more is estimated."""


class Inspector:
    """Answers questions about live jobs.

    Args:
        database: The way to the database.
        codec: Decodes payloads when they are read.
    """

    def __init__(self, database: Database, codec: Codec) -> None:
        self._database = database
        self._codec = codec
        self._sql = Statements(__package__, "inspect.sql", database.schema)

    def get_job(self, job_id: int) -> Job | None:
        """Return a live job, or ``None``."""
        row = self._database.fetch_one(self._sql["get_job"], {"id": job_id})
        if row is None:
            return None
        return self._job(row)

    def peek(self, queue: str, limit: int) -> list[Job]:
        """Return up to *limit* live jobs of *queue*: those that wait, then those that are held."""
        statement = self._sql.variant("peek", limit)
        params = {"queue": queue, "limit": limit}

        def read(session: Session) -> list[TupleRow]:
            session.execute(self._sql["by_index"])
            return session.fetch_all(statement, params)

        return [self._job(row) for row in self._database.run(read)]

    def _job(self, row: TupleRow) -> Job:
        return Job(
            id=row[0],
            queue=row[1],
            stored=Payload(row[2], Decoder(self._codec)),
            state="processing" if row[3] else "pending",
            priority=row[4],
            run_at=row[5],
            expires_at=row[6],
            attempts=row[7],
            max_attempts=row[8],
            visibility_timeout=timedelta(seconds=row[9]),
            base_backoff=timedelta(seconds=row[10]),
            worker_id=row[11],
            claim_expires_at=row[12],
            schedule=row[13],
            scheduled_for=row[14],
            enqueued_at=row[15],
        )

    def size(self, queue: str) -> int:
        """Return how many live jobs *queue* has."""
        count: int = self._database.fetch_value(self._sql["size"], {"queue": queue})
        return count

    def stats(self, queue: str) -> QueueStats:
        """Return how *queue* stands; see `MOST_COUNTED`."""
        params = {"queue": queue, "most": MOST_COUNTED}
        row = self._database.run(lambda session: self._count(session, params))
        due, expired, waiting, delayed, retrying, lapsed, good, running, dead, age = row
        estimates = _Estimates(self._database, self._sql, queue)
        ready = estimates.instead_of(due - expired, "due", looked_at=due)
        return QueueStats(
            ready=ready + estimates.instead_of(good, "lapsed", looked_at=lapsed),
            delayed=estimates.instead_of(delayed, "delayed", looked_at=waiting),
            retrying=estimates.instead_of(retrying, "retrying", looked_at=waiting),
            running=estimates.instead_of(running, "running", looked_at=running),
            dead=estimates.instead_of(dead, "dead", looked_at=dead),
            oldest_ready_age=None if age is None else timedelta(seconds=age),
            estimated=estimates.used,
        )

    def _count(self, session: Session, params: dict[str, Any]) -> TupleRow:
        session.execute(self._sql["by_index"])
        return session.fetch_all(self._sql["stats"], params)[0]


class _Estimates:
    """Takes the place of counts that have reached their limit.

    Attributes:
        used: Whether there was one.
    """

    def __init__(self, database: Database, sql: Statements, queue: str) -> None:
        self._database = database
        self._sql = sql
        self._queue = queue
        self.used = False

    def instead_of(self, count: int, kind: str, *, looked_at: int) -> int:
        """Return *count*, or an estimate when as many rows were *looked_at* as may be.

        What was counted is there: an estimate below it would be wrong for certain.
        """
        if looked_at < MOST_COUNTED:
            return count
        self.used = True
        explained = self._database.fetch_value(
            self._sql[f"estimate_{kind}"], {"queue": self._queue}
        )
        return max(count, int(explained[0]["Plan"]["Plan Rows"]))
