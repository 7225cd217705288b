"""The random walk over queues and dead letters."""

from __future__ import annotations

from datetime import timedelta
from functools import partial
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from alkstore import JobHandle, Queue, Store
from alkstore.runners.attempt import attempt, settle
from tests.support.walk.choices import (
    QUEUES,
    delays,
    enqueue_options,
    errors,
    lengths,
    numbers,
    payloads,
    picks,
    queue_names,
    queue_options,
    raised,
    settlings,
    stopped,
    workers,
)
from tests.support.walk.ground import Ground


class JobRules(Ground):
    """Jobs: enqueued, claimed, settled, and dead."""

    @rule(
        number=numbers,
        queue=queue_names,
        of=queue_options,
        many=st.lists(payloads, min_size=1, max_size=5),
        how=enqueue_options,
    )
    def enqueue(
        self, number: int, queue: str, of: dict[str, Any], many: list[Any], how: dict[str, Any]
    ) -> None:
        how = self._at(how, "run_at")

        def work(store: Store) -> int | list[int]:
            own = store.queue(queue, **of)
            return own.enqueue(many[0], **how) if len(many) == 1 else own.enqueue_many(many, **how)

        self.engines.call(number, work)

    @rule(
        number=numbers,
        queue=queue_names,
        worker=workers,
        limit=st.sampled_from([1, 2, 7]),
        wait=st.booleans(),
    )
    def claim(self, number: int, queue: str, worker: str, limit: int, wait: bool) -> None:
        def work(store: Store) -> list[JobHandle]:
            own = store.queue(queue)
            return own.claim_wait(worker, limit, timeout=0) if wait else own.claim(worker, limit)

        self._keep(self.engines.call(number, work))

    @rule(number=numbers, queue=queue_names, iterate=st.booleans())
    def claim_when_stopped(self, number: int, queue: str, iterate: bool) -> None:
        def work(store: Store) -> list[JobHandle]:
            own = store.queue(queue)
            if iterate:
                return list(own.jobs("w7", stop=stopped()))
            return own.claim_wait("w7", 2, stop=stopped())

        self.engines.call(number, work)

    @rule(
        number=numbers,
        queue=queue_names,
        whats=st.lists(st.tuples(settlings, st.none() | lengths), min_size=1, max_size=5),
    )
    def claim_and_settle(self, number: int, queue: str, whats: list[tuple[str, Any]]) -> None:
        before = len(self.handles)
        self._keep(self.engines.call(number, lambda s: s.queue(queue).claim("w3", len(whats))))
        for pair, (what, length) in zip(self.handles[before:], whats, strict=False):
            self.engines.on(pair, partial(_settle, what=what, error="no", length=length))

    @rule(number=numbers, queue=queue_names, error=st.none() | raised)
    def work(self, number: int, queue: str, error: type[BaseException] | None) -> None:
        """Work on one job as a worker does: whatever a handler raises is a failed attempt."""

        def handler(_: JobHandle) -> None:
            if error is not None:
                raise error("no")

        def one(store: Store) -> list[tuple[str, str, bool]]:
            done: list[tuple[str, str, bool]] = []
            for handle in store.queue(queue).claim("w4"):
                outcome = attempt(handler, handle)
                done.append((outcome.kind, outcome.error, settle(handle, outcome)))
            return done

        self.engines.call(number, one)

    @rule(number=numbers, queue=queue_names, limit=st.sampled_from([2, 3, 7]))
    def a_worker_dies(self, number: int, queue: str, limit: int) -> None:
        """Let all its claims lapse; another claims one job, and most of them stay lapsed."""
        before = len(self.handles)
        self._keep(self.engines.call(number, lambda store: store.queue(queue).claim("w5", limit)))
        holds = [pair.memory.visibility_timeout for pair in self.handles[before:]]
        if holds and max(holds) < 1_000:
            self.engines.advance(timedelta(seconds=max(holds)))
        self._keep(self.engines.call(number, lambda store: store.queue(queue).claim("w6")))

    @precondition(lambda self: self.handles)
    @rule(pick=picks, what=settlings, error=errors, length=st.none() | lengths | st.just(0))
    def settle(self, pick: int, what: str, error: str, length: Any) -> None:
        """Settle a claim, a stale one as well as a good one."""
        pair = self.handles[-1 - pick % len(self.handles)]
        self.engines.on(pair, partial(_settle, what=what, error=error, length=length))

    @precondition(lambda self: self.handles)
    @rule(
        number=numbers,
        chosen=st.lists(picks, max_size=6),
        beat=st.booleans(),
        at_least=st.none() | lengths,
    )
    def settle_many(self, number: int, chosen: list[int], beat: bool, at_least: Any) -> None:
        pairs = [self.handles[-1 - pick % len(self.handles)] for pick in chosen]
        queue = pairs[0].memory.queue if pairs else QUEUES[0]
        stores = self.engines.stores[number]

        def work(own: Queue, handles: list[JobHandle]) -> int:
            return own.heartbeat_many(handles, at_least) if beat else own.ack_many(handles)

        self.engines.both(
            lambda: work(stores.memory.queue(queue), [pair.memory for pair in pairs]),
            lambda: work(stores.postgres.queue(queue), [pair.postgres for pair in pairs]),
        )

    @rule(
        number=numbers,
        queue=queue_names,
        what=st.sampled_from(["cancel", "get", "drain"]),
        pick=picks,
    )
    def handle_live_jobs(self, number: int, queue: str, what: str, pick: int) -> None:
        ids = [*self.engines.job_ids(), 10**6]
        job = ids[pick % len(ids)]

        def work(store: Store) -> Any:
            own = store.queue(queue)
            if what == "drain":
                return own.ack_many(own.claim("drain", 10_000))
            return own.cancel(job) if what == "cancel" else store.get_job(job)

        self.engines.call(number, work)

    @precondition(lambda self: self.engines.dead_ids())
    @rule(
        number=numbers,
        what=st.sampled_from(["requeue", "requeue", "purge", "purge all", "pages"]),
        chosen=st.lists(picks, min_size=1, max_size=4),
        older_than=st.none() | delays,
    )
    def handle_dead_letters(
        self, number: int, what: str, chosen: list[int], older_than: Any
    ) -> None:
        """Work the dead letters of the queue that the first chosen one is of."""
        dead = self.engines.stores[0].memory.data.dead
        ids = [list(dead)[pick % len(dead)] for pick in chosen]
        queue = dead[ids[0]].job.queue

        def work(store: Store) -> Any:
            own = store.queue(queue) if queue in QUEUES else store.outbox("events")
            if what == "pages":
                return _pages(own, len(chosen))
            if what == "requeue":
                return own.requeue([*ids, 10**6])
            return own.purge(ids if what == "purge" else None, older_than=older_than)

        self.engines.call(number, work)


def _settle(handle: JobHandle, *, what: str, error: str, length: Any) -> bool:
    if what == "retry":
        return handle.retry(error, length)
    if what == "fail":
        return handle.fail(ValueError(error))
    if what == "heartbeat":
        return handle.heartbeat(length)
    return handle.ack() if what == "ack" else handle.release()


def _pages(queue: Any, limit: int) -> list[int]:
    """Return the ids of all dead letters, page by page."""
    found: list[int] = []
    page = queue.dead(limit)
    while page:
        found += [dead.id for dead in page]
        page = queue.dead(limit, after=page[-1])
    return found
