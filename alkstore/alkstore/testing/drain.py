"""Running a queue or an outbox in place, in the thread of the test."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Final, Literal

from alkstore.arguments import positive_int
from alkstore.runners.attempt import attempt, settle
from alkstore.runners.work import call, check_work
from alkstore.testing.assertions import Inspectable
from alkstore.traits import Delivery, Handler, JobHandle, Outbox, Queue, Store

Fate = Literal["acked", "retried", "dead", "released", "gone"]
"""What became of a job: finished, back for another attempt, a dead letter, given back as if it
had not been claimed, or taken away meanwhile (cancelled, or claimed by another).

It is read from where the job is afterwards. What the handler did with a job that it had settled
itself hides how: one that it failed and purged, or released and cancelled, counts as finished, and
one that it failed and requeued as given back."""

_WORKER: Final = "alkstore.testing"

_ROUNDING: Final = timedelta(milliseconds=1)
"""The end of a claim, less its length, is its begin to within so much."""


@dataclass(frozen=True, slots=True)
class Ran:
    """One attempt.

    Attributes:
        id: The job's id.
        attempt: Which attempt it was, from 1.
        fate: What became of the job.
        raised: What the application's code raised, or ``None``.
    """

    id: int
    attempt: int
    fate: Fate
    raised: BaseException | None


@dataclass(frozen=True, slots=True)
class Drained:
    """What a drain did.

    Attributes:
        runs: Each attempt, in order.
    """

    runs: list[Ran] = field(default_factory=list)

    def __len__(self) -> int:
        """Return how many attempts there were."""
        return len(self.runs)

    @property
    def acked(self) -> list[int]:
        """The ids of the jobs that were finished."""
        return self._ids("acked")

    @property
    def retried(self) -> list[int]:
        """The ids of the jobs that wait for another attempt, once for each failed one."""
        return self._ids("retried")

    @property
    def dead(self) -> list[int]:
        """The ids of the jobs that became dead letters."""
        return self._ids("dead")

    @property
    def errors(self) -> list[BaseException]:
        """What the application's code raised, in order."""
        return [run.raised for run in self.runs if run.raised is not None]

    def _ids(self, fate: Fate) -> list[int]:
        return [run.id for run in self.runs if run.fate == fate]


def drain(
    store: Store, queue: str, handler: Handler, *, raising: bool = False, limit: int = 1000
) -> Drained:
    """Work on *queue* in this thread until nothing in it is due.

    As a worker does: returning acknowledges, raising retries on the curve, so that a failed job
    is usually due later and not run again. What the handler enqueues is run as well.

    Args:
        store: Any store.
        queue: The queue's name.
        handler: The application's code.
        raising: Raise what the handler raised, after it was settled, instead of going on.
        limit: So many attempts are made at most, 1 to 1,000,000.

    Returns:
        What became of the jobs.

    Raises:
        AssertionError: There was still something due after *limit* attempts.
        BaseException: What the handler raised that is no `Exception` and no `SystemExit`,
            after it was settled: the test itself wants to end (`pytest.fail`,
            `pytest.skip`, a time limit, Ctrl-C). A `SystemExit` is a failed attempt, as in
            a worker.
        InvalidName: *queue* breaks the naming rule.
        InvalidOption: *handler* cannot be called, or is a coroutine function or a generator
            function (see `Handler`), or *limit* is out of range.
    """
    check_work(handler, "handler")
    limit = positive_int(limit, "limit")
    done = Drained()
    source = store.queue(queue)
    while _may_go_on(done, source, limit) and (handles := source.claim(_WORKER)):
        (handle,) = handles
        begun_at = _begun_at(store, handle)
        outcome = attempt(handler, handle, exits=(KeyboardInterrupt,))
        settle(handle, outcome)
        fate = _fate(store, source, handle, begun_at)
        done.runs.append(Ran(handle.id, handle.attempt, fate, outcome.raised))
        _raise_if_wished(outcome.raised, raising=raising)
    return done


def deliver_all(
    store: Store, outbox: str, delivery: Delivery, *, raising: bool = False, limit: int = 1000
) -> Drained:
    """Deliver the messages of *outbox* in this thread until none is due.

    Arguments, result and errors as `drain`; each message goes through `Outbox.run_once`, which
    releases it on a `SystemExit` and raises that.
    """
    check_work(delivery, "delivery")
    limit = positive_int(limit, "limit")
    done = Drained()
    source = store.outbox(outbox)
    seen: list[tuple[JobHandle, datetime, BaseException | None]] = []

    def observed(handle: JobHandle) -> None:
        begun_at = _begun_at(store, handle)
        try:
            call(delivery, handle)
        except BaseException as error:
            seen.append((handle, begun_at, error))
            raise
        seen.append((handle, begun_at, None))

    while _may_go_on(done, source, limit) and source.run_once(_WORKER, observed):
        handle, begun_at, raised = seen[-1]
        fate = _fate(store, source, handle, begun_at)
        done.runs.append(Ran(handle.id, handle.attempt, fate, raised))
        _raise_if_wished(raised, raising=raising)
    return done


def _begun_at(store: Store, handle: JobHandle) -> datetime:
    """Return since when, on the store clock, *handle* has its claim, or a moment before."""
    job = store.get_job(handle.id)
    if job is None or job.claim_expires_at is None:  # it was taken away already
        return handle.enqueued_at
    return job.claim_expires_at - job.visibility_timeout - _ROUNDING


def _fate(store: Store, source: Inspectable, handle: JobHandle, begun_at: datetime) -> Fate:
    if not handle.settled:
        return "gone"
    job = store.get_job(handle.id)
    if job is not None:
        return "retried" if job.attempts >= handle.attempt else "released"
    return "dead" if _has_died(source, handle.id, begun_at) else "acked"


def _has_died(source: Inspectable, job_id: int, since: datetime) -> bool:
    """Return whether a job is a dead letter that died at *since* or later.

    Reads two letters at the most for each moment in which one has died since then, however
    many died in it: the latest come first, and of one moment those with the largest ids.
    """
    after = None
    while letters := source.dead(1, after):
        (letter,) = letters
        if letter.id == job_id or letter.died_at < since:
            return letter.id == job_id
        after = replace(letter, id=job_id + 1 if letter.id > job_id else 1)
    return False


def _may_go_on(done: Drained, source: Queue | Outbox, limit: int) -> bool:
    """Return whether another attempt may be made; refuse it when one is due and may not."""
    if len(done) < limit:
        return True
    if source.stats().ready:
        raise AssertionError(
            f"still not empty after {limit} attempts: does a handler enqueue or release for ever?"
        )
    return False


def _raise_if_wished(raised: BaseException | None, *, raising: bool) -> None:
    """Raise what ends the test, or what the caller wants to see."""
    ends_the_test = not isinstance(raised, (Exception, SystemExit))
    if raised is not None and (raising or ends_the_test):
        raise raised
