"""The queue handle: names, options and payloads are checked here, before anything is touched."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from alkstore._typing import Unpack, override
from alkstore.arguments import (
    LARGEST_ID,
    Seconds,
    dead_place,
    listed,
    not_a_handle,
    positive_int,
    seconds,
    wait_seconds,
)
from alkstore.codec import encode_payloads
from alkstore.errors import InvalidOption
from alkstore.memory.access import Access
from alkstore.memory.handle import MemoryJobHandle
from alkstore.memory.inspection import Inspection
from alkstore.memory.jobs import Jobs
from alkstore.memory.settling import Claim, Settling
from alkstore.names import check_name
from alkstore.options import EnqueueOptions, Stamps, resolve_enqueue
from alkstore.stop_token import StopToken, check_optional_stop
from alkstore.traits import JobHandle
from alkstore.values import DeadJob, Job, QueueStats

MAX_BATCH = 10_000
"""The most jobs that one claim, or one page of dead letters, returns."""


class MemoryQueue:
    """The `Queue` of the memory engine: a name and the stamps of its jobs.

    Args:
        name: The queue's name, checked by whoever makes the handle.
        stamps: What is stamped on jobs that go in through this handle.
        access: The way to the tables.
    """

    __slots__ = ("_access", "_inspection", "_jobs", "_name", "_settling", "_stamps")

    def __init__(self, name: str, stamps: Stamps, access: Access) -> None:
        self._name = name
        self._stamps = stamps
        self._access = access
        self._settling = Settling(access)
        self._jobs = Jobs(access, self._settling)
        self._inspection = Inspection(access)

    @property
    def name(self) -> str:
        """The queue's name."""
        return self._name

    def enqueue(self, payload: Any, **options: Unpack[EnqueueOptions]) -> int:
        """Store a job; see `Queue.enqueue`."""
        resolved = resolve_enqueue(options, self._stamps)
        return self._jobs.store(self._name, [self._access.encode(payload)], resolved)[0]

    def enqueue_many(self, payloads: Iterable[Any], **options: Unpack[EnqueueOptions]) -> list[int]:
        """Store a job for each payload; see `Queue.enqueue_many`."""
        resolved = resolve_enqueue(options, self._stamps)
        raws = encode_payloads(self._access.encode, listed(payloads, "payloads"))
        return self._jobs.store(self._name, raws, resolved)

    def claim(self, worker_id: str, limit: int = 1) -> list[JobHandle]:
        """Claim up to *limit* jobs, without waiting; see `Queue.claim`."""
        worker_id = check_name(worker_id, "worker")
        limit = positive_int(limit, "limit", most=MAX_BATCH)
        return list(self._jobs.claim(self._name, worker_id, limit))

    def claim_wait(
        self,
        worker_id: str,
        limit: int = 1,
        timeout: Seconds | None = None,
        stop: StopToken | None = None,
    ) -> list[JobHandle]:
        """Claim up to *limit* jobs, sleeping until there is one; see `Queue.claim_wait`."""
        worker_id = check_name(worker_id, "worker")
        limit = positive_int(limit, "limit", most=MAX_BATCH)
        length = wait_seconds(timeout)
        token = check_optional_stop(stop)
        self._access.check_open()
        return list(self._jobs.claim_wait(self._name, worker_id, limit, length, token))

    def jobs(self, worker_id: str, *, stop: StopToken | None = None) -> Iterator[JobHandle]:
        """Iterate over claimed jobs until *stop* is cancelled; see `Queue.jobs`."""
        worker_id, token = check_name(worker_id, "worker"), check_optional_stop(stop)
        self._access.check_open()
        return self._iterate(worker_id, token)

    def _iterate(self, worker_id: str, stop: StopToken | None) -> Iterator[JobHandle]:
        while stop is None or not stop.cancelled:
            # An iteration that was stopped has its end, whatever became of the store since.
            yield from self._jobs.claim_wait(self._name, worker_id, 1, None, stop)

    def ack_many(self, handles: Iterable[JobHandle]) -> int:
        """Finish the jobs of *handles*; see `Queue.ack_many`."""
        own = self._own(handles)
        return _settled(own, self._settling.ack(handle.claim for handle in own))

    def release_many(self, handles: Iterable[JobHandle]) -> int:
        """Put jobs back, each as `JobHandle.release` does; for runners.

        Returns:
            How many were still held. `JobHandle.lost` is true of all afterwards: whoever still
            works with one has not settled it.
        """
        own = self._own(handles)
        released = self._settling.release(handle.claim for handle in own)
        for handle in own:
            handle.learn(held=False)
        return len(released)

    def heartbeat_many(self, handles: Iterable[JobHandle], at_least: Seconds | None = None) -> int:
        """Extend the claims of *handles*; see `Queue.heartbeat_many`."""
        shortest = 0.0 if at_least is None else seconds(at_least, "at_least")
        own = self._own(handles)
        held = self._settling.heartbeat_many((handle.claim for handle in own), shortest)
        for handle in own:
            handle.learn(held=handle.claim in held)
        return len(held)

    def cancel(self, job_id: int) -> bool:
        """Delete a live job of this queue; see `Queue.cancel`."""
        return self._settling.cancel(self._name, check_id(job_id))

    def peek(self, limit: int = 100) -> list[Job]:
        """Return live jobs without touching them; see `Queue.peek`."""
        return self._inspection.peek(self._name, positive_int(limit, "limit", most=MAX_BATCH))

    def size(self) -> int:
        """Return how many live jobs the queue has."""
        return self._inspection.size(self._name)

    def stats(self) -> QueueStats:
        """Return how the queue stands."""
        return self._inspection.stats(self._name)

    def dead(self, limit: int = 100, after: DeadJob | None = None) -> list[DeadJob]:
        """Return dead letters, the latest first; see `Queue.dead`."""
        limit = positive_int(limit, "limit", most=MAX_BATCH)
        return self._inspection.dead(self._name, limit, dead_place(after))

    def requeue(self, ids: Sequence[int]) -> int:
        """Make dead letters of this queue live again; see `Queue.requeue`."""
        chosen = [check_id(one) for one in listed(ids, "ids")]
        return self._inspection.requeue(self._name, chosen)

    def purge(self, ids: Sequence[int] | None = None, *, older_than: Seconds | None = None) -> int:
        """Delete dead letters of this queue for good; see `Queue.purge`."""
        age = 0.0 if older_than is None else seconds(older_than, "older_than")
        chosen = None if ids is None else [check_id(one) for one in listed(ids, "ids")]
        return self._inspection.purge(self._name, chosen, age)

    def _own(self, handles: Iterable[JobHandle]) -> list[MemoryJobHandle]:
        own: list[MemoryJobHandle] = []
        for handle in listed(handles, "handles"):
            if not isinstance(handle, MemoryJobHandle):
                raise not_a_handle(handle, self._name)
            if handle.queue != self._name:
                msg = f"a handle of the queue {self._name!a} is needed, not {handle!a}"
                raise InvalidOption(msg)
            if handle.data is not self._access.data:
                msg = f"{handle!a} is of a memory store with other tables"
                raise InvalidOption(msg)
            own.append(handle)
        return own

    @override
    def __repr__(self) -> str:
        """Show which queue this is."""
        return f"<{type(self).__name__} {self._name!r}>"


def _settled(handles: list[MemoryJobHandle], done: set[Claim]) -> int:
    """Have *handles* learn which claims are *done*; return how many."""
    for handle in handles:
        handle.learn(held=handle.claim in done, settled=True)
    return len(done)


def check_id(job_id: object) -> int:
    """Return a job id.

    Raises:
        InvalidOption: It is not an ``int`` of the range of job ids.
    """
    return positive_int(job_id, "job id", most=LARGEST_ID)
