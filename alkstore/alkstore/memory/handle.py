"""A claimed job, as a handler sees it."""

from __future__ import annotations

import dataclasses
from datetime import datetime
from typing import Any

from alkstore._typing import override
from alkstore.arguments import Seconds, positive_seconds, seconds
from alkstore.backoff import stored_delay
from alkstore.codec import Codec, decode_payload
from alkstore.error_text import error_text
from alkstore.memory.data import JobRow, MemoryData
from alkstore.memory.settling import Claim, Settling


class MemoryJobHandle:
    """The `JobHandle` of the memory engine.

    Args:
        job: The row at the time of the claim; it is copied.
        settling: Settles the claim.
        codec: Decodes the payload.
    """

    __slots__ = ("_codec", "_job", "_lost", "_settled", "_settling", "claim")

    def __init__(self, job: JobRow, settling: Settling, codec: Codec) -> None:
        assert job.claim_id is not None  # noqa: S101 - it was just claimed
        self._job = dataclasses.replace(job)
        self._settling = settling
        self._codec = codec
        self._lost = False
        self._settled = False
        self.claim: Claim = (job.id, job.claim_id)

    @property
    def data(self) -> MemoryData:
        """The tables that the job is in."""
        return self._settling.data

    @property
    def id(self) -> int:
        """The job's id."""
        return self._job.id

    @property
    def queue(self) -> str:
        """The queue's name."""
        return self._job.queue

    @property
    def payload(self) -> Any:
        """The decoded payload; raises `DecodeError` when the bytes do not decode."""
        return decode_payload(self._codec, self._job.payload)

    @property
    def raw(self) -> bytes:
        """The payload's bytes as stored."""
        return self._job.payload

    @property
    def attempt(self) -> int:
        """Which attempt this is, from 1."""
        return self._job.attempts

    @property
    def max_attempts(self) -> int:
        """The job's attempt budget."""
        return self._job.max_attempts

    @property
    def visibility_timeout(self) -> float:
        """How long this claim holds without a heartbeat, in seconds."""
        return self._job.visibility_timeout

    @property
    def enqueued_at(self) -> datetime:
        """When the job was enqueued."""
        return self._job.enqueued_at

    @property
    def schedule(self) -> str | None:
        """The schedule that fired the job, or ``None``."""
        return self._job.schedule

    @property
    def scheduled_for(self) -> datetime | None:
        """The boundary that the job was fired for, or ``None``."""
        return self._job.scheduled_for

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
        return self.learn(held=bool(self._settling.ack([self.claim])), settled=True)

    def retry(self, error: object, delay: Seconds | None = None) -> bool:
        """Give the job back after a failed attempt; see `JobHandle.retry`."""
        gap = None if delay is None else seconds(delay, "delay")
        if self.attempt >= self.max_attempts:
            return self.fail(error)
        if gap is None:
            gap = stored_delay(self._job.base_backoff, self.attempt)
        return self.learn(held=self._settling.retry(self.claim, gap), settled=True)

    def fail(self, error: object) -> bool:
        """Make the job a dead letter at once."""
        return self.learn(held=self._settling.bury(self.claim, error_text(error)), settled=True)

    def release(self) -> bool:
        """Put the job back as pending, the attempt given back."""
        return self.learn(held=bool(self._settling.release([self.claim])), settled=True)

    def heartbeat(self, extend: Seconds | None = None) -> bool:
        """Hold the claim for another *extend* from now."""
        length = self.visibility_timeout if extend is None else positive_seconds(extend, "extend")
        return self.learn(held=self._settling.heartbeat(self.claim, length))

    def learn(self, *, held: bool, settled: bool = False) -> bool:
        """Note what was found out about the claim; return *held*."""
        if not held:
            self._lost = self._lost or not self._settled
        elif settled:
            self._settled = True
        return held

    @override
    def __repr__(self) -> str:
        """Show which claim this is, without the payload."""
        return (
            f"<{type(self).__name__} job {self.id} of {self.queue!r}, "
            f"attempt {self.attempt} of {self.max_attempts}>"
        )
