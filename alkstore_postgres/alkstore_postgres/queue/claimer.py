"""Claiming jobs, and sleeping until there is one to claim."""

from __future__ import annotations

import time
import uuid
from typing import Any

from psycopg.rows import TupleRow

from alkstore.codec import Codec
from alkstore.stop_token import Parker, StopToken
from alkstore_postgres.database.database import Database
from alkstore_postgres.database.session import Session
from alkstore_postgres.database.statements import Statements
from alkstore_postgres.queue.handle import ClaimedRow, PostgresJobHandle
from alkstore_postgres.queue.settler import Settler
from alkstore_postgres.wakes.hub import WakeHub

_POLL = 5.0
"""A waiting claimer looks again after this many seconds at the latest."""

_SHORTEST_SLEEP = 0.02
"""What is due but held by others for a moment is not asked for in a hot loop."""

_SWEEP_BATCH = 10_000


class Claimer:
    """Takes jobs for workers.

    Args:
        database: The way to the database.
        hub: Where wakes are heard.
        settler: Settles the claims that are handed out.
        codec: Decodes payloads.
    """

    def __init__(
        self, database: Database, hub: WakeHub, settler: Settler, codec: Codec
    ) -> None:
        self._database = database
        self._hub = hub
        self._settler = settler
        self._codec = codec
        self._sql = Statements(__package__, "claim.sql", database.schema)

    def claim(self, queue: str, worker_id: str, limit: int) -> list[PostgresJobHandle]:
        """Claim up to *limit* jobs, without waiting."""
        return self._claim(queue, worker_id, limit)[0]

    def claim_wait(
        self,
        queue: str,
        worker_id: str,
        limit: int,
        timeout: float | None,
        stop: StopToken | None,
    ) -> list[PostgresJobHandle]:
        """Claim up to *limit* jobs, sleeping up to *timeout* seconds until there is one."""
        deadline = None if timeout is None else time.monotonic() + timeout
        parker = Parker()

        def wake(_name: str) -> None:
            parker.unpark()

        self._hub.attach(queue, wake)
        if stop is not None:
            stop.attach(parker)
        try:
            while stop is None or not stop.cancelled:
                handles, due = self._claim(queue, worker_id, limit)
                if handles:
                    return handles
                left = _POLL if deadline is None else deadline - time.monotonic()
                if left <= 0:
                    return []
                nap = _POLL if due is None else max(due, _SHORTEST_SLEEP)
                parker.park(min(nap, left, _POLL))
            return []
        finally:
            if stop is not None:
                stop.detach(parker)
            self._hub.detach(queue, wake)

    def _claim(
        self, queue: str, worker_id: str, limit: int
    ) -> tuple[list[PostgresJobHandle], float | None]:
        """Return the claimed handles, and in how many seconds to look again if none."""
        claim_id = uuid.uuid4()
        params: dict[str, Any] = {
            "queue": queue,
            "worker_id": worker_id,
            "limit": limit,
            "claim_id": claim_id,
            "swept": False,
        }
        rows = self._database.fetch_all(self._sql.variant("claim", limit), params)
        if rows[0][0]:
            params["swept"] = True
            rows = self._database.run(lambda session: self._sweep_and_claim(session, params))
        handles = [
            PostgresJobHandle(_claimed(row, queue, claim_id), self._settler, self._codec)
            for row in rows
            if row[2] is not None
        ]
        return handles, rows[0][1]

    def _sweep_and_claim(self, session: Session, params: dict[str, Any]) -> list[TupleRow]:
        """Put lapsed and expired jobs where they belong, then claim, in one transaction."""
        sweep = {"queue": params["queue"], "batch": _SWEEP_BATCH}
        while session.fetch_value(self._sql["sweep"], sweep):
            pass
        return session.fetch_all(self._sql.variant("claim", params["limit"]), params)


def _claimed(row: TupleRow, queue: str, claim_id: uuid.UUID) -> ClaimedRow:
    return ClaimedRow(
        id=row[2],
        queue=queue,
        claim_id=claim_id,
        raw=row[3],
        attempt=row[4],
        max_attempts=row[5],
        visibility_timeout=row[6],
        base_backoff=row[7],
        enqueued_at=row[8],
        schedule=row[9],
        scheduled_for=row[10],
    )
