"""A claimed job, as a handler sees it."""

from __future__ import annotations

from datetime import datetime
from typing import Any, NamedTuple

from alkstore._typing import override
from alkstore.arguments import Seconds, positive_seconds, seconds
from alkstore.backoff import stored_delay
from alkstore.codec import Codec, decode_payload
from alkstore.error_text import error_text
from alkstore_postgres.database.arrays import UuidBytes
from alkstore_postgres.queue.settler import Claim, Settler


class ClaimedRow(NamedTuple):
    """What a claim returned of a job's row.

    Attributes:
        claim_id: The identity of the claim, shared by the jobs of one call.
        base_backoff: The first gap of the retry curve, in seconds.
    """

    id: int
    queue: str
    claim_id: UuidBytes
    raw: bytes
    attempt: int
    max_attempts: int
    visibility_timeout: float
    base_backoff: float
    enqueued_at: datetime
    schedule: str | None
    scheduled_for: datetime | None


class PostgresJobHandle:
    """The `JobHandle` of this engine."""

    __slots__ = ("_codec", "_lost", "_row", "_settled", "_settler")

    def __init__(self, row: ClaimedRow, settler: Settler, codec: Codec) -> None:
        self._row = row
        self._settler = settler
        self._codec = codec
        self._lost = False
        self._settled = False

    @property
    def id(self) -> int:
        """The job's id."""
        return self._row.id

    @property
    def queue(self) -> str:
        """The queue's name."""
        return self._row.queue

    @property
    def payload(self) -> Any:
        """The decoded payload; raises `DecodeError` when the bytes do not decode."""
        return decode_payload(self._codec, self._row.raw)

    @property
    def raw(self) -> bytes:
        """The payload's bytes as stored."""
        return self._row.raw

    @property
    def attempt(self) -> int:
        """Which attempt this is, from 1."""
        return self._row.attempt

    @property
    def max_attempts(self) -> int:
        """The job's attempt budget."""
        return self._row.max_attempts

    @property
    def visibility_timeout(self) -> float:
        """How long this claim holds without a heartbeat, in seconds."""
        return self._row.visibility_timeout

    @property
    def enqueued_at(self) -> datetime:
        """When the job was enqueued."""
        return self._row.enqueued_at

    @property
    def schedule(self) -> str | None:
        """The schedule that fired the job, or ``None``."""
        return self._row.schedule

    @property
    def scheduled_for(self) -> datetime | None:
        """The boundary that the job was fired for, or ``None``."""
        return self._row.scheduled_for

    @property
    def schema(self) -> str:
        """The schema that the job is in."""
        return self._settler.schema

    @property
    def claim(self) -> Claim:
        """The identity of this claim."""
        return self._row.id, self._row.claim_id

    @property
    def lost(self) -> bool:
        """Whether a settling call or a heartbeat has learnt that the claim is gone."""
        return self._lost

    @property
    def settled(self) -> bool:
        """Whether this handle has settled its claim."""
        return self._settled

    def ack(self) -> bool:
        """Finish the job."""
        return self._settle(self._settler.ack(self.claim))

    def retry(self, error: object, delay: Seconds | None = None) -> bool:
        """Give the job back after a failed attempt; see `JobHandle.retry`."""
        gap = None if delay is None else seconds(delay, "delay")
        if self.attempt >= self.max_attempts:
            return self.fail(error)
        if gap is None:
            gap = stored_delay(self._row.base_backoff, self.attempt)
        return self._settle(self._settler.retry(self.queue, self.claim, gap))

    def fail(self, error: object) -> bool:
        """Make the job a dead letter at once."""
        return self._settle(self._settler.bury(self.claim, error_text(error)))

    def release(self) -> bool:
        """Put the job back as pending, the attempt given back."""
        return self._settle(self._settler.release(self.queue, self.claim))

    def heartbeat(self, extend: Seconds | None = None) -> bool:
        """Hold the claim for another *extend* from now."""
        length = self.visibility_timeout if extend is None else positive_seconds(extend, "extend")
        held = self._settler.heartbeat(self.claim, length)
        return self.learn(held=held)

    def learn(self, *, held: bool, settled: bool = False) -> bool:
        """Note what a statement found out about the claim; return *held*."""
        if not held:
            self._lost = self._lost or not self._settled
        elif settled:
            self._settled = True
        return held

    def _settle(self, held: bool) -> bool:  # noqa: FBT001 - the statement's answer
        return self.learn(held=held, settled=True)

    @override
    def __repr__(self) -> str:
        """Show which claim this is, without the payload."""
        return (
            f"<{type(self).__name__} job {self.id} of {self.queue!r}, "
            f"attempt {self.attempt} of {self.max_attempts}>"
        )
