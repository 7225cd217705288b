"""A random walk over the whole store, on both engines in step.

Every answer is compared, and again and again everything that can be seen. The short walk is the
same at each run. A long one takes other ways each time::

    ALKSTORE_WALK_MINUTES=10 python -m pytest tests/property/test_engines_agree.py
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from datetime import timedelta
from functools import partial
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from alkstore import JobHandle, LockHandle, Queue, Store
from alkstore._typing import override
from alkstore.memory.leases import Lease as MemoryLease
from alkstore.names import SCHEDULER_LOCK
from alkstore.stop_token import StopToken
from alkstore_postgres import PostgresStore
from alkstore_postgres.lock.leases import Lease as PostgresLease
from alkstore_postgres.scheduler.tick import LeaseNotProven, Ticker
from tests.support.postgres_harness import PostgresHarness
from tests.support.two_engines import START, STORES, Pair, TwoEngines

QUEUES = ["mails", "été 😀;b'\"%s"]
OUTBOXES = ["events"]
SCHEDULES = ["a", "a!", 'a"b', "a\\", "é"]
LOCKS = ["l", "mails"]
TTL = 10.0

WALK = settings(
    max_examples=30,
    stateful_step_count=50,
    deadline=None,
    derandomize=True,
    print_blob=True,
    suppress_health_check=list(HealthCheck),
)
LONG_WALK = settings(
    WALK, max_examples=50, stateful_step_count=80, derandomize=False, database=None
)

numbers = st.integers(0, STORES - 1)
picks = st.one_of(st.integers(0, 2), st.integers(0, 40))
queue_names = st.sampled_from([QUEUES[0], *QUEUES])
schedule_names = st.sampled_from(SCHEDULES)
workers = st.sampled_from(["w1", "w2"])
payloads: st.SearchStrategy[Any] = st.sampled_from(
    [None, 1, "naïve\x00", {"a": [1, 2.5, {}]}, [], "x" * 300]
)
lengths = st.one_of(
    st.sampled_from([0.001, 0.5, 1, 2.5, 10, 59.999999, 60, 300, 3600, timedelta(days=1)]),
    st.floats(0.001, 100_000),
)
delays = st.one_of(st.just(0), st.just(1e-7), lengths)
offsets = st.one_of(st.sampled_from([-3600, -1e-6, 0, 1e-6, 1, 5]), st.floats(-1e5, 1e5))
attempts = st.integers(1, 4)
settlings = st.sampled_from(["fail", "retry", "release", "heartbeat", "ack"])
errors = st.sampled_from(["boom", "", "nul\x00 \ud800", "y" * 30_000])


def some(**strategies: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    """Some of the options, seldom all of them."""
    return st.fixed_dictionaries({}, optional=strategies)


enqueue_options = st.one_of(
    st.just({}),
    some(priority=st.integers(-2, 2), max_attempts=attempts),
    some(delay=st.sampled_from([0, 1e-7, 0.5, 10, 60]), expires=st.sampled_from([61, 300, 3600])),
    some(delay=lengths, priority=st.sampled_from([-32_768, 32_767])),
    some(run_at=offsets, priority=st.integers(-2, 2), expires=lengths),
    some(expires=lengths, max_attempts=attempts),
)
queue_options = st.one_of(
    st.just({}),
    some(
        visibility_timeout=st.sampled_from([0.5, 5, 60]),
        max_attempts=attempts,
        base_backoff=lengths,
    ),
)
schedule_options = st.one_of(
    st.just({}),
    some(catch_up=st.sampled_from(["all", "latest"]), starts_at=offsets),
    some(priority=st.integers(-2, 2), expires=lengths, max_attempts=attempts),
)
specs = st.sampled_from(
    [
        *("@every 1s", "@every 5s", "@every 60s", "@every 1m", " @every\t060s\r\n", "@every 7m"),
        *("@every 1h", "@every 1d", "@every 36500d"),
    ]
)
spans = st.one_of(
    st.sampled_from([1, 5, 10, 60, 64, 65, 300, 3600, 0.000001, 0.5]),
    st.floats(0, 1_000).map(lambda number: round(number, 6)),
    st.sampled_from([86_400, 700_000, 40 * 86_400]),
)


class EnginesAgree(RuleBasedStateMachine):
    """Does everything twice.

    Args:
        harness: The Postgres engine with hands on its clock.
        postgres: Its stores, over tables that this run empties.
    """

    def __init__(self, harness: PostgresHarness, postgres: list[PostgresStore]) -> None:
        super().__init__()
        self.engines = TwoEngines(harness, postgres)
        self.tickers = [
            Ticker(parts.database, parts.leases, parts.sender.channel, TTL)
            for parts in (store._parts for store in postgres)
        ]
        self.handles: list[Pair[JobHandle]] = []
        self.locks: list[Pair[LockHandle]] = []
        self.leases: list[Pair[Any]] = []
        self.steps = 0
        self.open: list[tuple[ExitStack, Pair[Any]]] = []

    @override
    def teardown(self) -> None:
        while self.open:
            self._end(commit=False)
        self.engines.close()

    @initialize(
        names=st.lists(schedule_names, unique=True),
        spec=specs,
        how=schedule_options,
        many=st.lists(payloads, max_size=3),
    )
    def begin_with_something(
        self, names: list[str], spec: str, how: dict[str, Any], many: list[Any]
    ) -> None:
        """Schedules whose boundaries fall together, jobs of all kinds, and dead letters."""
        for name in names:
            self.schedule(
                number=0, name=name, spec=spec, queue=QUEUES[0], payload=name, how=dict(how)
            )
        self.engines.call(0, lambda store: store.queue(QUEUES[0]).enqueue_many(many))
        self.engines.call(0, lambda s: s.queue(QUEUES[0]).enqueue_many(many, expires=3600))
        claimed = self.engines.call(0, lambda store: store.queue(QUEUES[0]).claim("w", 5))
        self._keep(claimed)
        for pair in self.handles[::2]:
            self.engines.on(pair, lambda handle: handle.fail("at the beginning"))

    @invariant()
    def everything_visible_is_the_same(self) -> None:
        # Answers are compared at each step, all that there is at each third.
        self.steps += 1
        if self.steps % 3:
            return
        self.engines.compare(QUEUES, OUTBOXES)
        for handles in (self.handles, self.locks):
            for pair in handles[-50:]:
                self.engines.both(partial(_itself, pair.memory), partial(_itself, pair.postgres))

    def _at(self, options: dict[str, Any], name: str) -> dict[str, Any]:
        """Return *options* with an offset from now made a time."""
        if name not in options:
            return options
        return {**options, name: self.engines.clock.now() + timedelta(seconds=options[name])}

    # -- time

    @rule(span=spans)
    def let_time_pass(self, span: float) -> None:
        self.engines.advance(timedelta(seconds=span))

    @rule(pick=picks, off=st.sampled_from([0, 0, -1, 1]))
    def go_to_a_moment_at_which_something_changes(self, pick: int, off: int) -> None:
        moments = self.engines.moments()
        if moments:
            moment = moments[pick % len(moments)] + timedelta(microseconds=off)
            if moment - self.engines.clock.now() < timedelta(days=1_000):
                self.engines.advance(moment - self.engines.clock.now())

    # -- jobs

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

    def _keep(self, claimed: Pair[list[JobHandle]] | None) -> None:
        if claimed is not None:
            both = zip(claimed.memory, claimed.postgres, strict=True)
            self.handles += [Pair(*handles) for handles in both]

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

    # -- dead letters

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

    # -- locks

    @rule(
        number=numbers,
        name=st.sampled_from(LOCKS),
        ttl=lengths,
        owner=st.none() | workers,
        wait=st.booleans(),
    )
    def take_a_lock(
        self, *, number: int, name: str, ttl: Any, owner: str | None, wait: bool
    ) -> None:
        def work(store: Store) -> LockHandle | None:
            if wait:
                return store.lock(name, ttl, timeout=0, owner=owner)
            return store.try_lock(name, ttl, owner)

        taken = self.engines.call(number, work)
        if taken is not None and taken.memory is not None and taken.postgres is not None:
            assert owner is None or taken.memory.owner == taken.postgres.owner == owner
            self.locks.append(Pair(taken.memory, taken.postgres))

    @precondition(lambda self: self.locks)
    @rule(pick=picks, release=st.booleans(), ttl=st.none() | lengths | st.just(0))
    def keep_or_release_a_lock(self, pick: int, release: bool, ttl: Any) -> None:
        held = self.locks[-1 - pick % len(self.locks)]
        self.engines.on(held, lambda handle: handle.release() if release else handle.renew(ttl))

    # -- schedules

    @rule(
        number=numbers,
        name=schedule_names,
        spec=specs,
        queue=queue_names,
        payload=payloads,
        how=schedule_options,
    )
    def schedule(
        self,
        *,
        number: int,
        name: str,
        spec: str,
        queue: str,
        payload: Any,
        how: dict[str, Any],
    ) -> None:
        how = self._at(how, "starts_at")
        self.engines.call(number, lambda s: s.schedule(name, spec, queue, payload, **how))

    @rule(
        number=numbers,
        pick=picks,
        what=st.sampled_from(
            ["rest", "rest", "again", "pause", "resume", "run now", "unschedule", "damage"]
        ),
        span=spans,
    )
    def handle_a_schedule(self, number: int, pick: int, what: str, span: float) -> None:
        names = [*self.engines.stores[0].memory.data.schedules, "nobody"]
        name = names[pick % len(names)]
        if what == "damage":
            if name != "nobody":
                self.engines.damage(name)
            return
        if what == "rest":
            self.engines.call(number, lambda store: store.pause(name))
            self.engines.advance(timedelta(seconds=span))
            what = "resume"

        def work(store: Store) -> Any:
            calls: dict[str, Callable[[str], Any]] = {
                "again": partial(_register_again, store),
                "pause": store.pause,
                "resume": store.resume,
                "run now": store.run_now,
                "unschedule": store.unschedule,
            }
            return calls[what](name), store.get_schedule(name)

        self.engines.call(number, work)

    @rule(number=numbers, span=st.just(0) | spans, leads=st.booleans())
    def tick_after_an_outage(self, number: int, span: float, leads: bool) -> None:
        """Let nobody tick for a while, then a rogue, or the leader loop for one turn."""
        self.engines.advance(timedelta(seconds=span))
        if not leads:
            self.engines.tick(number)
            return
        store = self.engines.stores[number]
        memory, postgres = StopToken(), StopToken()
        self.engines.both(
            lambda: store.memory._leading.run(memory, OneTurn(memory)),
            lambda: store.postgres._parts.lead(postgres, OneTurn(postgres)),
        )

    @rule(number=numbers)
    def take_the_scheduler_lease(self, number: int) -> None:
        """A leader comes that will stand still, or be killed."""
        store = self.engines.stores[number]
        memory = store.memory._leading._leases.acquire(SCHEDULER_LOCK, "leader", TTL)
        postgres = store.postgres._parts.leases.acquire(SCHEDULER_LOCK, "leader", TTL)
        if isinstance(memory, MemoryLease):
            assert isinstance(postgres, PostgresLease)
            assert memory.token == postgres.token
            self.leases.append(Pair(memory, postgres))
        else:
            assert memory == postgres

    @precondition(lambda self: self.leases)
    @rule(number=numbers, pick=picks)
    def a_leader_that_stood_still_takes_its_turn(self, number: int, pick: int) -> None:
        store = self.engines.stores[number]
        lease = self.leases[-1 - pick % len(self.leases)]

        def postgres() -> int | None:
            if not store.postgres._parts.leases.renew(lease.postgres, TTL):
                return None
            return self.tickers[number].tick(lease.postgres).fired

        def memory() -> int | None:
            def renew() -> None:
                if not store.memory._leading._leases.renew(lease.memory, TTL):
                    raise LeaseNotProven

            try:
                return store.memory._schedules.tick(renew)
            except LeaseNotProven:
                return None

        self.engines.both(memory, postgres)

    # -- the outbox

    @rule(number=numbers, payload=payloads, how=enqueue_options)
    def send(self, number: int, payload: Any, how: dict[str, Any]) -> None:
        how = self._at(how, "run_at")
        self.engines.call(number, lambda store: store.outbox("events").enqueue(payload, **how))

    @rule(
        number=numbers,
        worker=workers,
        what=st.sampled_from(["raise", "deliver", "exit", "settle", "settle and raise"]),
    )
    def deliver(self, number: int, worker: str, what: str) -> None:
        got: list[list[Any]] = [[], []]
        sides = iter(got)

        def work(store: Store) -> bool:
            side = next(sides)

            def delivery(handle: JobHandle) -> None:
                side.append((handle.id, handle.attempt, handle.raw))
                if what.startswith("settle"):
                    side.append(handle.retry("by hand", 1))
                if what == "exit":
                    raise KeyboardInterrupt
                if what.endswith("raise"):
                    raise ValueError("not reached")

            return store.outbox("events").run_once(worker, delivery)

        self.engines.call(number, work)
        assert got[0] == got[1]

    # -- transactions

    @precondition(lambda self: len(self.open) < 2)
    @rule(number=numbers)
    def begin(self, number: int) -> None:
        store, stack = self.engines.stores[number], ExitStack()
        memory = stack.enter_context(store.memory.transaction())
        postgres = stack.enter_context(store.postgres.transaction())
        self.open.append((stack, Pair[Any](memory, postgres)))

    @precondition(lambda self: self.open)
    @rule(
        number=numbers,
        pick=picks,
        queue=queue_names | st.none() | st.just("__alkstore_x"),
        payload=payloads,
        how=enqueue_options,
    )
    def write_in_it(
        self, *, number: int, pick: int, queue: str | None, payload: Any, how: dict[str, Any]
    ) -> None:
        how = self._at(how, "run_at")
        _, tx = self.open[pick % len(self.open)]
        store = self.engines.stores[number]

        def work(side: Store, own: Any) -> int:
            if queue is None:
                return side.outbox_enqueue_tx(own, "events", payload, **how)
            return side.enqueue_tx(own, queue, payload, **how)

        self.engines.both(
            lambda: work(store.memory, tx.memory), lambda: work(store.postgres, tx.postgres)
        )

    @precondition(lambda self: self.open)
    @rule(commit=st.booleans())
    def end(self, commit: bool) -> None:
        self._end(commit=commit)

    def _end(self, *, commit: bool) -> None:
        stack, _ = self.open.pop()
        if commit:
            stack.close()
            return
        with pytest.raises(_GivenUp), stack:
            raise _GivenUp

    # -- what is refused

    @rule(number=numbers, what=st.integers(0, 15))
    def refuse(self, number: int, what: int) -> None:
        """What one refuses the other does too, in the same words where they are the core's."""
        calls = _REFUSED
        assert self.engines.call(number, calls[what % len(calls)]) is None


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


def _register_again(store: Store, name: str) -> Any:
    """Register a schedule as it is, in other words where there are any."""
    now = store.get_schedule(name)
    if now is None:
        return None
    spec = now.spec.replace("60s", "1m")
    how: Any = {"priority": now.priority, "starts_at": now.starts_at}
    return store.schedule(name, spec, now.queue, now.payload, **how)


_REFUSED: list[Callable[[Any], Any]] = [
    lambda store: store.queue("q").enqueue(1, delay=-1),
    lambda store: store.queue("q").enqueue(1, delay=1, run_at=START),
    lambda store: store.queue("q").enqueue(1, priority=1 << 15),
    lambda store: store.queue("q").enqueue(1, expires=0),
    lambda store: store.queue("q").enqueue(float("nan")),
    lambda store: store.queue("q").enqueue_many([1, object()], max_attempts=2),
    lambda store: store.queue("q").enqueue("x" * (1 << 20)),
    lambda store: store.queue("q").claim("w", 0),
    lambda store: store.queue("__alkstore_q"),
    lambda store: store.queue("q").purge([0]),
    lambda store: store.get_job(True),
    lambda store: store.schedule("s", "@hourly", "q", 1),
    lambda store: store.schedule("s", "@every 1s", "__alkstore_outbox:o", 1),
    lambda store: store.schedule("s", "@every 1s", "q", 1, catch_up="some"),
    lambda store: store.try_lock("l", 0),
    lambda store: store.run_now("nobody"),
]


def _itself(handle: JobHandle | LockHandle) -> JobHandle | LockHandle:
    return handle


class OneTurn:
    """Ends a leader loop after its first good turn.

    Args:
        stop: What ends it.
    """

    def __init__(self, stop: StopToken) -> None:
        self._stop = stop

    def led(self, until: float) -> None:  # noqa: ARG002 - of the trait
        """End the loop."""
        self._stop.cancel()

    def failed(self, error: BaseException) -> None:
        """Let it go on."""


class _GivenUp(Exception):
    pass


@pytest.fixture
def harness(conninfo: str) -> Iterator[PostgresHarness]:
    """The Postgres engine with hands on its clock."""
    harness = PostgresHarness(conninfo)
    yield harness
    harness.close()


@pytest.fixture
def postgres(harness: PostgresHarness) -> list[PostgresStore]:
    """Its stores."""
    return [harness.open() for _ in range(STORES)]


def walk(harness: PostgresHarness, postgres: list[PostgresStore], how: settings) -> None:
    """Walk as *how* says, each time from empty tables."""

    class Walk(EnginesAgree):
        def __init__(self) -> None:
            super().__init__(harness, postgres)

    run_state_machine_as_test(Walk, settings=how)


MINUTES = float(os.environ.get("ALKSTORE_WALK_MINUTES", "0"))
"""How long to go on at random after the walk that is the same each time."""


@pytest.mark.slow
@pytest.mark.timeout(120 + 120 * MINUTES)
def test_the_engines_agree_on_everything(
    harness: PostgresHarness, postgres: list[PostgresStore]
) -> None:
    walk(harness, postgres, WALK)
    end = time.monotonic() + 60 * MINUTES
    while time.monotonic() < end:
        walk(harness, postgres, LONG_WALK)
