"""The random walk over the claims that PostgreSQL makes by shorter ways."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from functools import partial
from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import rule

from alkstore import JobHandle, Queue, Store
from alkstore_postgres.queue import claim_places
from alkstore_postgres.queue.claim_places import ClaimPlaces, Place
from alkstore_postgres.queue.claimer import _Claim
from tests.support.two_engines import Pair, TwoEngines
from tests.support.walk.choices import numbers, picks, queue_names, workers
from tests.support.walk.ground import Ground

FAR = "far"
"""A queue that is empty before and after each walk behind a place."""

MANY = "many"
"""A queue of very many jobs, which are soon gone."""

levels = st.sampled_from([-1, 0, 0, 1])
doings = st.one_of(
    st.tuples(st.just("claim"), st.sampled_from([1, 1, 2, 5])),
    st.tuples(st.sampled_from(["enqueue", "enqueue many", "early"]), levels),
    st.tuples(st.sampled_from(["release", "retry", "requeue", "ack"]), picks),
)


class ClaimRules(Ground):
    """Claims in a streak, claims that follow a wake, and claims behind a remembered place."""

    @rule(
        number=numbers,
        queue=queue_names,
        batches=st.tuples(st.integers(0, 4), st.integers(2, 5)),
        limit=st.sampled_from([1, 1, 2, 3]),
        above=st.sampled_from([None, None, 0.5, 3600]),
        later=st.sampled_from([0, 0, 0.5, 300]),
        ack=st.booleans(),
    )
    def claim_in_a_streak(
        self,
        *,
        number: int,
        queue: str,
        batches: tuple[int, int],
        limit: int,
        above: float | None,
        later: float,
        ack: bool,
    ) -> None:
        """Claim jobs of two priorities batch by batch, perhaps below one that is delayed.

        Amid the streak time may pass, so that claims lapse.
        """

        def claim(store: Store) -> list[JobHandle]:
            return store.queue(queue).claim("w7", limit)

        counts = batches[0] * limit, batches[1] * limit
        self.engines.call(number, partial(_enqueue_many, queue=queue, counts=counts))
        before = len(self.handles)
        with self._one_above(number, queue, above):
            for at in range(sum(batches) + 1):
                if at == 3:
                    self.engines.advance(timedelta(seconds=later))
                self._keep(self.engines.call(number, claim))
        if ack:
            for pair in self.handles[before:]:
                self.engines.on(pair, lambda handle: handle.ack())

    @contextmanager
    def _one_above(self, number: int, queue: str, delay: float | None) -> Iterator[None]:
        """Have a job that is delayed at a priority above the others, if *delay* says so."""
        if delay is None:
            yield
            return
        job = self.engines.call(
            number, lambda s: s.queue(queue).enqueue("later", delay=delay, priority=3)
        )
        yield
        assert job is not None
        self.engines.call(number, lambda s: s.queue(queue).cancel(job.memory))

    @rule(
        number=numbers,
        queue=queue_names,
        worker=workers,
        counts=st.lists(st.tuples(st.integers(0, 2), st.integers(0, 1)), min_size=4, max_size=9),
        above=st.sampled_from([None, 60]),
    )
    def claim_after_each_wake(
        self,
        *,
        number: int,
        queue: str,
        worker: str,
        counts: list[tuple[int, int]],
        above: float | None,
    ) -> None:
        """As a worker does that sleeps alone in its process, and is woken for each of these."""
        pair = self.engines.stores[number]
        claimer = pair.postgres._parts.queues.claimer
        self.engines.call(number, lambda store: _drain(store.queue(queue)))
        with self._one_above(number, queue, above):
            for some in counts:
                self.engines.call(number, partial(_enqueue_many, queue=queue, counts=some))
                hinted = _Claim(queue, worker, max(sum(some), 1))
                hinted.hinted = True
                self._keep(
                    self.engines.both(
                        partial(pair.memory.queue(queue).claim, worker, hinted.limit),
                        partial(_try, claimer._try, hinted),
                    )
                )

    @rule(number=numbers, doing=st.lists(doings, min_size=8, max_size=20))
    def claim_behind_a_place(self, number: int, doing: list[tuple[str, int]]) -> None:
        """While full looks are slow; no other store, and no time, has a part in it."""
        behind = _Behind(self.engines, number)
        with _slow_looks():
            behind.do("enqueue many", 0)
            behind.do("claim", 1)
            for what, value in doing:
                behind.do(what, value)
        behind.end()

    @rule(number=numbers, chance=st.integers(0, 11), expire=st.sampled_from([True, True, False]))
    def enqueue_very_many(self, number: int, chance: int, expire: bool) -> None:
        """So many that they take two statements; seldom, since that takes a while."""
        if chance != 7:
            return
        how: Any = {"expires": 1} if expire else {}
        self.engines.call(number, lambda s: s.queue(MANY).enqueue_many(range(5_001), **how))
        self.engines.call(number, lambda store: store.queue(MANY).stats())
        self.engines.advance(timedelta(seconds=1))
        self.engines.call(number, lambda store: _drain(store.queue(MANY)))
        self.engines.call(number, lambda store: store.queue(MANY).stats())
        self.engines.call(number, lambda store: store.queue(MANY).purge())


class _Behind:
    """One walk through the queue `FAR`.

    A claim behind a place may get less than it has asked for: jobs of a lower priority wait for
    the next full look. What it gets is what comes first.
    """

    def __init__(self, engines: TwoEngines, number: int) -> None:
        self._engines = engines
        self._number = number
        self._handles: list[Pair[JobHandle]] = []

    def do(self, what: str, value: int) -> None:
        if what == "claim":
            self._claim(value)
        elif what == "enqueue many":
            self._call(lambda queue: queue.enqueue_many(range(6), priority=value))
        elif what in ("enqueue", "early"):
            early = self._engines.clock.now() - timedelta(hours=1)
            how: Any = {"run_at": early} if what == "early" else {}
            self._call(lambda queue: queue.enqueue(0, priority=value, **how))
        elif self._handles:
            pair = self._handles[value % len(self._handles)]
            if what == "requeue":
                self._engines.on(pair, lambda handle: handle.fail("to be requeued"))
                self._call(lambda queue: queue.requeue([pair.memory.id]))
            else:
                self._engines.on(pair, lambda handle: _settle(handle, what))

    def end(self) -> None:
        places = self._engines.stores[self._number].postgres._parts.queues.claimer._places
        places.forget(FAR)
        for pair in self._handles:
            self._engines.on(pair, lambda handle: handle.ack())
        self._call(_drain)
        self._call(lambda queue: [queue.dead(), queue.purge(), queue.stats()])

    def _claim(self, limit: int) -> None:
        store = self._engines.stores[self._number]
        got = store.postgres.queue(FAR).claim("w9", limit)
        most = max(len(got), 1)
        claimed = self._engines.both(lambda: store.memory.queue(FAR).claim("w9", most), lambda: got)
        assert claimed is not None
        both = zip(claimed.memory, claimed.postgres, strict=True)
        self._handles += [Pair(*handles) for handles in both]

    def _call(self, work: Any) -> None:
        self._engines.call(self._number, lambda store: work(store.queue(FAR)))


@contextmanager
def _slow_looks() -> Iterator[None]:
    """Have every full look count as slow: on a clock that stands still, each takes no time."""
    looked = ClaimPlaces.looked

    def slowly(
        places: ClaimPlaces, queue: str, now: float, _took: float, last: Place | None, rows: int
    ) -> None:
        looked(places, queue, now, 1.0, last, rows)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(claim_places, "SLOW_LOOKS", 1)
        patch.setattr(ClaimPlaces, "looked", slowly)
        yield


def _enqueue_many(store: Store, *, queue: str, counts: tuple[int, int]) -> list[list[int]]:
    """Store so many jobs of each of two priorities."""
    own = store.queue(queue)
    return [
        own.enqueue_many(range(count), priority=priority)
        for priority, count in enumerate(counts, 1)
    ]


def _try(way: Any, claim: _Claim) -> list[JobHandle]:
    return list(way(claim)[0])


def _settle(handle: JobHandle, what: str) -> bool:
    if what == "retry":
        return handle.retry("again", 0)
    return handle.release() if what == "release" else handle.ack()


def _drain(queue: Queue) -> list[int]:
    """Claim all that is due, and be done with it; return how many each claim got."""
    return [queue.ack_many(queue.claim("drain", 10_000)) for _ in range(2)]
