"""Settling claims: ack, retry, fail, release, heartbeat, one by one and in batches."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from alkstore.errors import DatabaseError
from alkstore_postgres.database.arrays import LongArray, UuidArray, UuidBytes
from alkstore_postgres.database.database import Database
from alkstore_postgres.database.errors import NOTIFY_QUEUE_FULL
from alkstore_postgres.database.statements import Statements
from alkstore_postgres.queue.claim_places import ClaimPlaces
from alkstore_postgres.wakes.sender import WakeSender

Claim = tuple[int, UuidBytes]
"""A claim's identity: the job's id and the claim's own."""

_Done = TypeVar("_Done")


class Settler:
    """Writes what became of a claim, if it is still that claim.

    Args:
        database: The way to the database.
        wakes: Sends and merges the wakes.
        places: Told of jobs that go back before them.

    Attributes:
        schema: The schema whose claims it settles.
    """

    def __init__(self, database: Database, wakes: WakeSender, places: ClaimPlaces) -> None:
        self._database = database
        self._wakes = wakes
        self._places = places
        self.schema = database.schema
        self._sql = Statements(__package__, "settle.sql", database.schema)

    def ack(self, claim: Claim) -> bool:
        """Finish the job."""
        return self._touch("ack", claim)

    def retry(self, queue: str, claim: Claim, delay: float) -> bool:
        """Give the job back, due in *delay* seconds."""
        return self._give_back(queue, lambda wake: self._touch("retry", claim, delay=delay, **wake))

    def release(self, queue: str, claim: Claim) -> bool:
        """Give the job back as it was before the claim."""
        return self._give_back(queue, lambda wake: self._touch("release", claim, **wake))

    def release_many(self, queue: str, claims: Sequence[Claim]) -> set[Claim]:
        """Give the jobs of *queue* that are still held back, as `release` does; return by which."""

        def release(wake: Mapping[str, Any]) -> set[Claim]:
            return self._touch_many("release_many", claims, queue=queue, **wake)

        return self._give_back(queue, release)

    def bury(self, claim: Claim, error: str) -> bool:
        """Make the job a dead letter with the text *error*."""
        return self._touch("bury", claim, error=error)

    def heartbeat(self, claim: Claim, extend: float) -> bool:
        """Hold the claim for *extend* seconds from now."""
        return self._touch("heartbeat", claim, extend=extend)

    def ack_many(self, claims: Sequence[Claim]) -> set[Claim]:
        """Finish the jobs that are still held; return which they were."""
        return self._touch_many("ack_many", claims)

    def heartbeat_many(self, claims: Sequence[Claim], at_least: float) -> set[Claim]:
        """Extend the claims that are still held; return which they were.

        Args:
            claims: The claims.
            at_least: Seconds; a visibility timeout that is shorter does not count.
        """
        return self._touch_many("heartbeat_many", claims, at_least=at_least)

    def cancel(self, queue: str, job_id: int) -> bool:
        """Delete a live job of *queue*, held or not."""
        params = {"id": job_id, "queue": queue}
        return self._database.execute(self._sql["cancel"], params) == 1

    def _touch(self, statement: str, claim: Claim, **params: Any) -> bool:
        params |= {"id": claim[0], "claim_id": claim[1]}
        return self._database.execute(self._sql[statement], params) == 1

    def _give_back(self, queue: str, write: Callable[[Mapping[str, Any]], _Done]) -> _Done:
        """Have *write* give jobs of *queue* back, and see to their wake.

        Args:
            queue: The queue's name.
            write: Called with the parameters of the wake; returns what is true when it has given
                something back.
        """
        inline = self._wakes.inline(queue)
        wake = {"wake": inline, "channel": self._wakes.channel}
        try:
            done = write(wake)
        except DatabaseError as error:
            if not inline or error.sqlstate != NOTIFY_QUEUE_FULL:
                raise
            # A wake is only a hint: that a job goes back must not fail for it.
            done = write({**wake, "wake": False})
        if done:
            self._places.forget(queue)
            (self._wakes.carried if inline else self._wakes.merged)(queue)
        return done

    def _touch_many(self, statement: str, claims: Sequence[Claim], **params: Any) -> set[Claim]:
        if not claims:
            self._database.check_open()
            return set()
        ids, claim_ids = zip(*claims, strict=True)
        params |= {"ids": LongArray(ids), "claim_ids": UuidArray(claim_ids)}
        rows = self._database.fetch_all(self._sql[statement], params)
        return {(row[0], row[1]) for row in rows}
