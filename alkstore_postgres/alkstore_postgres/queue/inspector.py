"""Reading jobs and counting them."""

from __future__ import annotations

from datetime import timedelta

from alkstore.codec import Codec, decode_payload
from alkstore.values import Job, Payload, QueueStats
from alkstore_postgres.database.database import Database
from alkstore_postgres.database.statements import Statements


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
        return Job(
            id=row[0],
            queue=row[1],
            stored=Payload(row[2], lambda raw: decode_payload(self._codec, raw)),
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
        """Return how *queue* stands."""
        row = self._database.fetch_one(self._sql["stats"], {"queue": queue})
        ready, delayed, retrying, running, dead, age = row or (0, 0, 0, 0, 0, None)
        return QueueStats(
            ready=ready,
            delayed=delayed,
            retrying=retrying,
            running=running,
            dead=dead,
            oldest_ready_age=None if age is None else timedelta(seconds=age),
        )
