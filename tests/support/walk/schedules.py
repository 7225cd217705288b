"""The random walk over schedules, and whoever fires them."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import timedelta
from functools import partial
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from alkstore import Store
from alkstore.memory.leases import Lease as MemoryLease
from alkstore.names import SCHEDULER_LOCK
from alkstore.stop_token import StopToken
from alkstore_postgres import PostgresStore
from alkstore_postgres.lock.leases import Lease as PostgresLease
from alkstore_postgres.scheduler.tick import LeaseNotProven, Ticker
from tests.support.postgres_harness import PostgresHarness
from tests.support.two_engines import Pair
from tests.support.waiting import wait_until
from tests.support.walk.choices import (
    numbers,
    payloads,
    picks,
    queue_names,
    schedule_names,
    schedule_options,
    spans,
    specs,
)
from tests.support.walk.damage import DAMAGES, Damage
from tests.support.walk.ground import Ground

TTL = 10.0


class ScheduleRules(Ground):
    """Schedules, and ticks by rogues, leaders, and leaders that stood still."""

    def __init__(self, harness: PostgresHarness, postgres: list[PostgresStore]) -> None:
        super().__init__(harness, postgres)
        self.leases: list[Pair[Any]] = []

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
        self.engines.registers(
            name, lambda s: s.schedule(name, spec, queue, payload, **how), number
        )

    @rule(
        number=numbers,
        pick=picks,
        what=st.sampled_from(
            ["rest", "rest", "again", "in other words", "pause", "resume", "run now", "unschedule"]
        ),
        span=spans,
    )
    def handle_a_schedule(self, number: int, pick: int, what: str, span: float) -> None:
        names = [*self.engines.stores[0].memory.data.schedules, "nobody"]
        name = names[pick % len(names)]
        if what == "rest":
            self.engines.call(number, lambda store: store.pause(name))
            self.ears.compare()
            self.engines.advance(timedelta(seconds=span))
            what = "resume"
        if what in ("again", "in other words"):
            work = partial(_register_again, name=name, exactly=what == "again")
            self.engines.registers(name, work, number)
            return

        def act(store: Store) -> Any:
            calls: dict[str, Callable[[str], Any]] = {
                "pause": store.pause,
                "resume": store.resume,
                "run now": store.run_now,
                "unschedule": store.unschedule,
            }
            return calls[what](name), store.get_schedule(name)

        self.engines.call(number, act)

    @precondition(lambda self: self.engines.data.schedules)
    @rule(
        number=numbers,
        pick=picks,
        damages=st.lists(st.sampled_from(DAMAGES), min_size=3, max_size=8),
        mend=st.booleans(),
    )
    def damage(self, number: int, pick: int, damages: list[Damage], mend: bool) -> None:
        """Write something into rows by hand; perhaps let somebody tick and register them again."""
        data = self.engines.data
        names = list(data.schedules)
        chosen = [names[(pick + at) % len(names)] for at in range(len(damages))]
        for name, damage in zip(chosen, damages, strict=True):
            damage.in_memory(name, data)
            damage.in_postgres(name, self.engines.schedule_table)
        self.engines.call(number, lambda store: store.schedules())
        if mend:
            self.engines.tick(number)
            for name in dict.fromkeys(chosen):
                again = partial(_register_again, name=name, exactly=True)
                self.engines.registers(name, again, number)

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
        wait_until(self._nobody_leads)

    def _nobody_leads(self) -> bool:
        """Return whether the loop has given its lease back, which it may do late."""
        owners = {row[2] for row in self.engines._postgres_locks() if row[0] == SCHEDULER_LOCK}
        return owners <= {None, "leader"}

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
            parts = store.postgres._parts
            ticker = Ticker(parts.database, parts.leases, parts.sender.channel, TTL)
            return ticker.tick(lease.postgres).fired

        def memory() -> int | None:
            def renew() -> None:
                if not store.memory._leading._leases.renew(lease.memory, TTL):
                    raise LeaseNotProven

            try:
                return store.memory._schedules.tick(renew)
            except LeaseNotProven:
                return None

        self.engines.both(memory, postgres)


def _register_again(store: Store, name: str, *, exactly: bool) -> Any:
    """Register a schedule as it is, or in other words, where there are any, and other options."""
    now = store.get_schedule(name)
    if now is None:
        return None
    how: Any = {"priority": now.priority, "starts_at": now.starts_at}
    if not exactly:
        return store.schedule(name, now.spec.replace("60s", "1m"), now.queue, now.payload, **how)
    how |= {"expires": now.expires, "max_attempts": now.max_attempts, "catch_up": now.catch_up}
    return store.schedule(name, now.spec, now.queue, now.payload, **how)


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

    def left(self, thread: threading.Thread) -> None:
        """Let it end."""
