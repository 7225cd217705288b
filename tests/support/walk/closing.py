"""The random walk over the end of a store."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from hypothesis.stateful import precondition, rule

from alkstore import Queue, Store
from tests.support.two_engines import Pair
from tests.support.walk.choices import numbers, stopped
from tests.support.walk.ground import Ground
from tests.support.walk.refused import REFUSED


class ClosingRules(Ground):
    """One of the stores is closed, and another one comes into its place."""

    @precondition(lambda self: self.steps > 5 and self.engines.closed < 2)
    @rule(number=numbers)
    def close_a_store(self, number: int) -> None:
        """What was taken through it stays with those who hold it: refused from now on."""
        store = self.engines.stores[number]
        self.ears.compare()
        queues = Pair[Queue](store.memory.queue("q"), store.postgres.queue("q"))
        for _ in range(2):
            self.engines.call(number, lambda one: one.close())
        for work in (*_OF_A_STORE, *REFUSED):
            self.engines.call(number, work)
        for act in _OF_A_QUEUE:
            self.engines.on(queues, act)
        for _, tx in self.open:
            self.engines.both(
                partial(store.memory.enqueue_tx, tx.memory, "q", 1),
                partial(store.postgres.enqueue_tx, tx.postgres, "q", 1),
            )
        self.ears.replace(number, self.engines.replace(number).postgres)


_OF_A_STORE: list[Callable[[Store], Any]] = [
    lambda store: store.queue("q"),
    lambda store: store.outbox("o"),
    lambda store: store.get_job(1),
    lambda store: store.transaction().__enter__(),
    lambda store: store.notify("c"),
    lambda store: store.listen("c"),
    lambda store: store.try_lock("l", 1),
    lambda store: store.lock("l", 1, timeout=0),
    lambda store: store.lock("l", 1, stop=stopped()),
    lambda store: store.schedule("s", "@every 1s", "q", 1),
    lambda store: store.unschedule("s"),
    lambda store: store.schedules(),
    lambda store: store.get_schedule("s"),
    lambda store: store.pause("s"),
    lambda store: store.resume("s"),
    lambda store: store.run_now("s"),
    lambda store: store.run_schedules(stopped()),
    lambda store: store.enqueue_tx(None, "q", 1),
    lambda store: store.notify_tx(None, "c"),
    lambda store: store.start_scheduler(),
    lambda store: store.start_worker("q", print),
    lambda store: store.start_outbox("o", print),
]

_OF_A_QUEUE: list[Callable[[Queue], Any]] = [
    lambda queue: queue.enqueue(1),
    lambda queue: queue.enqueue(object()),
    lambda queue: queue.enqueue_many([]),
    lambda queue: queue.enqueue_many([1]),
    lambda queue: queue.claim("w"),
    lambda queue: queue.claim("w", 0),
    lambda queue: queue.claim_wait("w", timeout=0),
    lambda queue: queue.claim_wait("w", stop=stopped()),
    lambda queue: list(queue.jobs("w")),
    lambda queue: list(queue.jobs("w", stop=stopped())),
    lambda queue: queue.ack_many([]),
    lambda queue: queue.heartbeat_many([]),
    lambda queue: queue.cancel(1),
    lambda queue: queue.peek(),
    lambda queue: queue.size(),
    lambda queue: queue.stats(),
    lambda queue: queue.dead(),
    lambda queue: queue.requeue([]),
    lambda queue: queue.requeue([1]),
    lambda queue: queue.purge([]),
    lambda queue: queue.purge(),
]
