"""The random walk over outboxes and transactions."""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from alkstore import JobHandle, Store
from tests.support.two_engines import Pair
from tests.support.walk.choices import (
    enqueue_options,
    numbers,
    payloads,
    picks,
    queue_names,
    workers,
)
from tests.support.walk.ground import Ground


class MessageRules(Ground):
    """Messages, and what is written in a transaction that may be rolled back."""

    @rule(number=numbers, payload=payloads, how=enqueue_options)
    def send(self, number: int, payload: Any, how: dict[str, Any]) -> None:
        how = self._at(how, "run_at")
        self.engines.call(number, lambda store: store.outbox("events").enqueue(payload, **how))

    @rule(
        number=numbers,
        worker=workers,
        what=st.sampled_from(
            ["raise", "deliver", "interrupt", "exit", "settle", "settle and raise"]
        ),
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
                if what == "interrupt":
                    raise KeyboardInterrupt
                if what == "exit":
                    raise SystemExit(3)
                if what.endswith("raise"):
                    raise ValueError("not reached")

            return store.outbox("events").run_once(worker, delivery)

        self.engines.call(number, work)
        assert got[0] == got[1]

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
