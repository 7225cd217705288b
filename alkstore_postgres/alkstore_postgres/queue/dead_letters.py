"""The dead letters of a queue: pages, requeue, purge."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta, timezone

from alkstore.codec import Codec, Decoder
from alkstore.values import DeadJob, Payload
from alkstore_postgres.database.database import Database
from alkstore_postgres.database.statements import Statements

_PURGE_BATCH = 5_000
_LARGEST_ID = 2**63 - 1


class DeadLetters:
    """Reads and works dead letters.

    Args:
        database: The way to the database.
        codec: Decodes payloads when they are read.
    """

    def __init__(self, database: Database, codec: Codec) -> None:
        self._database = database
        self._codec = codec
        self._sql = Statements(__package__, "dead_letters.sql", database.schema)

    def page(self, queue: str, limit: int, after: DeadJob | None) -> list[DeadJob]:
        """Return up to *limit* dead letters of *queue*, the latest first, behind *after*."""
        params = {
            "queue": queue,
            "limit": limit,
            "died_at": None if after is None else _stored_time(after.died_at),
            "id": _LARGEST_ID if after is None else after.id,
        }
        rows = self._database.fetch_all(self._sql["dead"], params)
        return [
            DeadJob(
                id=row[0],
                queue=row[1],
                stored=Payload(row[2], Decoder(self._codec)),
                priority=row[3],
                attempts=row[4],
                max_attempts=row[5],
                visibility_timeout=timedelta(seconds=row[6]),
                base_backoff=timedelta(seconds=row[7]),
                error=row[8],
                schedule=row[9],
                scheduled_for=row[10],
                enqueued_at=row[11],
                died_at=row[12],
            )
            for row in rows
        ]

    def requeue(self, queue: str, ids: Sequence[int]) -> int:
        """Make dead letters of *queue* live again; return how many there were."""
        if not ids:
            self._database.check_open()
            return 0
        params = {"queue": queue, "ids": list(ids)}
        return self._database.execute(self._sql["requeue"], params)

    def purge(self, queue: str, ids: Sequence[int] | None, older_than: float) -> int:
        """Delete dead letters that died *older_than* seconds ago; return how many.

        Without ids it goes in batches, each a transaction of its own, so that a million
        dead letters neither hold locks for long nor outlive a statement time limit.
        """
        if ids is not None and not ids:
            self._database.check_open()
            return 0
        if ids is not None:
            params = {"queue": queue, "ids": list(ids), "older_than": older_than}
            return self._database.execute(self._sql["purge_ids"], params)
        total = 0
        while True:
            batch = {"queue": queue, "older_than": older_than, "batch": _PURGE_BATCH}
            count = self._database.execute(self._sql["purge"], batch)
            total += count
            if count < _PURGE_BATCH:
                return total


_BEGINNING = datetime.min.replace(tzinfo=timezone.utc)


def _stored_time(died_at: datetime) -> datetime | str:
    """Return the time as the server has it.

    What was damaged to a time before all that Python can tell is read as the first one:
    paging has to get past it.
    """
    return "-infinity" if died_at == _BEGINNING else died_at
