"""Every statement of a queue, run once over some backlog and explained."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from alkstore.options import QUEUE_DEFAULTS, resolve_enqueue
from alkstore.traits import JobHandle
from alkstore_postgres import PostgresStore
from alkstore_postgres.queue.claimer import _Claim
from alkstore_postgres.wakes.merging import Merging
from tests.support.backlogs import Backlog
from tests.support.plans import Explainer, Plan
from tests.support.workers import release_many

T = TypeVar("T")


class QueueStatements:
    """Leads jobs of the queue ``mail`` through their lives.

    Args:
        store: The store.
        backlog: What is in its tables.
        explainer: Explains what is sent.

    Attributes:
        plans: The plans of each call, by its name.
    """

    def __init__(self, store: PostgresStore, backlog: Backlog, explainer: Explainer) -> None:
        self._store = store
        self._backlog = backlog
        self._explainer = explainer
        self.plans: dict[str, list[Plan]] = {}

    def run(self) -> dict[str, list[Plan]]:
        """Run every call that there is something for; return the plans."""
        self._look()
        self._settle(self._claim())
        self._dead_letters()
        self._enqueue()
        return self.plans

    def _enqueue(self) -> None:
        self._call("enqueue", lambda: self._store.queue("mail").enqueue(1))
        parts = self._store._parts
        order = parts.queues.producer.order("mail", resolve_enqueue({}, QUEUE_DEFAULTS))
        params = {**order.params, "payload": b"1", "told": 7}
        asking = order.insert_and_ask
        self._call("enqueue that asks", lambda: parts.database.fetch_one(asking, params))

    def _claim(self) -> list[JobHandle]:
        queue = self._store.queue("mail")
        self._call("claim 1", lambda: queue.claim("w"))
        handles = self._call("claim 100", lambda: queue.claim("w", 100))
        # A number that is not written into the statement.
        handles += self._call("claim 33", lambda: queue.claim("w", 33))
        claimer = self._store._parts.queues.claimer
        for name, limit in (("claim_first", 1), ("claim_some_below", 1), ("claim_more_below", 100)):
            claim = _Claim("mail", "w", limit)
            query, params = claimer._sql.variant(name, limit), claim.params()
            rows = self._call(
                f"{name} {limit}",
                lambda: self._store._parts.database.fetch_all(query, params),  # noqa: B023 - called at once
            )
            handles += claimer._handles(claim, rows)
        lapsed, rest = handles[:3], handles[3:]
        self._backlog.lapse([handle.id for handle in lapsed])
        self._call("sweep and claim 1", lambda: queue.claim("w"))
        return rest

    def _look(self) -> None:
        queue = self._store.queue("mail")
        self._call("stats", queue.stats)
        self._call("size", queue.size)
        self._call("peek", queue.peek)
        self._call("peek 33", lambda: queue.peek(33))
        self._call("get_job", lambda: self._store.get_job(7))
        sender = self._store._parts.sender
        told = Merging(0.0)
        told.carried(0.0, 7)
        self._call("wake", lambda: sender._ask({"mail": (told, list(range(1, 65)), False)}))
        empty = self._store.queue("empty")
        self._call("claim of an empty queue", lambda: empty.claim("w"))

    def _settle(self, handles: list[JobHandle]) -> None:
        queue = self._store.queue("mail")
        self._call("cancel", lambda: queue.cancel(7))
        if not handles:
            return
        beaten, acked, retried, released, failed, *rest = handles
        self._call("heartbeat", beaten.heartbeat)
        self._call("ack", acked.ack)
        self._call("retry", lambda: retried.retry("x"))
        self._call("release", released.release)
        self._call("fail", lambda: failed.fail("x"))
        self._call("heartbeat_many", lambda: queue.heartbeat_many(rest[:50]))
        self._call("ack_many", lambda: queue.ack_many(rest[:50]))
        self._call("release_many", lambda: release_many(queue, rest[50:100]))

    def _dead_letters(self) -> None:
        queue = self._store.queue("mail")
        letters = self._call("dead", lambda: queue.dead(100))
        after = letters[len(letters) // 2] if letters else None
        self._call("dead, next page", lambda: queue.dead(100, after))
        ids = [letter.id for letter in letters[-40:]]
        self._call("requeue", lambda: queue.requeue(ids[:20] or [7]))
        self._call("purge by ids", lambda: queue.purge(ids[20:] or [7]))
        # A hundred of them died in each second: these are a few hundred.
        age = max(self._backlog.dead_seconds() - 3, 1)
        self._call("purge by age", lambda: queue.purge(older_than=age))

    def _call(self, name: str, call: Callable[[], T]) -> T:
        with self._explainer.watching() as plans:
            result = call()
        self.plans[name] = plans
        return result
