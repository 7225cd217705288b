"""Settlement: what became of the claims is written, in batches, and not forgotten."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable
from copy import copy
from typing import Protocol, runtime_checkable

from alkstore.errors import DatabaseError, StoreClosed
from alkstore.runners.attempt import settle
from alkstore.runners.claims import Claims
from alkstore.runners.held import Held
from alkstore.runners.pause import pause
from alkstore.runners.say import say
from alkstore.runners.status import Status
from alkstore.traits import JobHandle, Queue

_logger = logging.getLogger(__name__)

_PART = "settlement"

_BATCH = 1_000

_SINGLY = 20
"""So many are written one by one before what came in meanwhile has its turn."""

_TRIES = 5
"""A claim is tried to be settled so often, even when it should have lapsed already."""


@runtime_checkable
class ReleasesMany(Protocol):
    """A queue that puts many jobs back at once, each as `JobHandle.release` does."""

    def release_many(self, handles: Iterable[JobHandle]) -> int:
        """Release the claims that are still held; return how many.

        `JobHandle.lost` is true of all handles afterwards.
        """
        ...


class Settlement:
    """Writes the outcomes of ended claims.

    Acknowledgements that came in while the last batch was written go together in one
    statement, and so do releases: at the end there is no time for one after the other. What
    cannot be written is tried again while the claim can still be ours, that is for one
    visibility timeout after it was last known to be held; after that it is given up, and the
    job comes back by itself.

    Args:
        queue: Whose claims they are.
        claims: The books.
        status: What gets to know of good turns and failures.
    """

    def __init__(self, queue: Queue, claims: Claims, status: Status) -> None:
        self._queue = queue
        self._claims = claims
        self._status = status

    def turn(self) -> None:
        """Settle what is due, or sleep until something is."""
        batch = self._claims.due(_BATCH)
        if not batch:
            rest = self._claims.next_try()
            if rest is None:
                self._status.over(_PART)  # nothing is left that could fail
            self._claims.settler.park(rest)
            return
        self._write_or_put_back(batch)

    def finish(self) -> None:
        """Settle what nobody has tried to settle yet."""
        while batch := self._claims.due(_BATCH, untried=True):
            self._write_or_put_back(batch)

    def _write_or_put_back(self, batch: list[Held]) -> None:
        try:
            self._write(batch)
        except BaseException:
            self._claims.put_back(batch)
            raise

    def _write(self, batch: list[Held]) -> None:
        acks: list[Held] = []
        releases: list[Held] = []
        others: list[Held] = []
        nothing: list[Held] = []
        for held in batch:
            kind = held.outcome.kind
            if kind == "settled" or held.handle.settled or held.handle.lost:
                nothing.append(held)
            elif kind == "ack":
                acks.append(held)
            else:
                (releases if kind == "release" else others).append(held)
        self._claims.forget(nothing)
        if acks:
            self._ack(acks)
        if releases:
            others = [*self._release(releases), *others]
        singly = 0
        while others and singly < _SINGLY:
            others = self._settle_first(others)
            singly += 1
        self._claims.leave_for_later(others)

    def _ack(self, acks: list[Held]) -> None:
        try:
            self._queue.ack_many([held.handle for held in acks])
        except BaseException as error:  # noqa: BLE001 - no outcome may get lost here
            self._again(acks, error)
        else:
            self._settled(acks)

    def _release(self, releases: list[Held]) -> list[Held]:
        """Release claims together; return those that are to be released one by one."""
        if not isinstance(self._queue, ReleasesMany):
            return releases
        try:
            self._queue.release_many([held.handle for held in releases])
        except BaseException as error:  # noqa: BLE001 - as above
            if not _is_for_all(error):
                self._status.failed(_PART, error)
                return releases
            self._again(releases, error)
        else:
            self._settled(releases)
        return []

    def _settle_first(self, others: list[Held]) -> list[Held]:
        """Settle the first of *others*; return those that are left for now."""
        first = others[0]
        try:
            if first.given_up:
                # Its handler, which still works, has settled nothing: the beat tells it so.
                settle(copy(first.handle), first.outcome)
                first.handle.heartbeat()
            else:
                settle(first.handle, first.outcome)
        except BaseException as error:  # noqa: BLE001 - as above
            if _is_for_all(error):
                # What holds for the first holds for all: one time-out is enough.
                self._again(others, error)
                return []
            self._again([first], error)
        else:
            self._settled([first])
        return others[1:]

    def _settled(self, done: list[Held]) -> None:
        self._claims.forget(done)
        self._status.good(_PART)

    def _again(self, unsettled: list[Held], error: BaseException) -> None:
        if isinstance(error, StoreClosed):
            self._claims.forget(unsettled)
            raise error
        failures = self._status.failed(_PART, error)
        rest = pause(failures)
        now = time.monotonic()
        for held in unsettled:
            lapse = held.since + held.handle.visibility_timeout
            if held.failures >= _TRIES and now > lapse:
                say(
                    _logger,
                    logging.WARNING,
                    "what became of job %d (%s) could not be written; it comes back by itself",
                    held.handle.id,
                    held.outcome.kind,
                )
                self._claims.forget([held])
            else:
                self._claims.postpone(held, rest)


def _is_for_all(error: BaseException) -> bool:
    """Return whether what was raised for one claim would be raised for any."""
    return isinstance(error, StoreClosed) or (isinstance(error, DatabaseError) and error.retryable)
