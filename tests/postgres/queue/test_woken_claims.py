"""A claim after a wake is a short statement where the last wakes have led to jobs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from alkstore.traits import JobHandle, Queue
from alkstore_postgres import PostgresStore
from alkstore_postgres.queue.claim_streaks import ClaimStreaks
from alkstore_postgres.queue.claimer import Claimer
from tests.support.job_table import JobTable

FULL, SHORT, SOME, BELOW = "claim", "claim_first", "claim_some", "claim_some_below"

TRUST = 4
"""After so many good wakes the next one is trusted."""


class Sleeper:
    """Claims that find nothing at first and are woken then.

    Attributes:
        sent: The names of the last call's claim statements.
    """

    def __init__(
        self,
        store: PostgresStore,
        queue: Queue,
        claim_statements: list[str],
        patch: pytest.MonkeyPatch,
    ) -> None:
        self.sent = claim_statements
        self._queue = queue
        self._events: list[Callable[[], Any]] = []
        attempt = Claimer._try

        def trying(claimer: Claimer, claim: Any) -> Any:
            found = attempt(claimer, claim)
            if not found[0] and self._events:
                # It has looked and does not sleep yet: the wake is remembered.
                self._events.pop(0)()
                store._parts.hub.waiters.wake_all()
            return found

        patch.setattr(Claimer, "_try", trying)

    def claim(self, *events: Callable[[], Any], limit: int = 1) -> list[JobHandle]:
        """Claim; one of *events* happens, and wakes, each time that there was nothing."""
        self.sent.clear()
        self._events = list(events)
        handles = self._queue.claim_wait("w", limit, timeout=60)
        assert not self._events
        return handles

    def learn(self, wakes: int = TRUST) -> None:
        """Have so many wakes lead to a job."""
        for _ in range(wakes):
            (handle,) = self.claim(lambda: self._queue.enqueue("good"))
            assert self.sent == [FULL, FULL]
            assert handle.ack()


@pytest.fixture
def sleeper(
    store: PostgresStore,
    queue: Queue,
    claim_statements: list[str],
    monkeypatch: pytest.MonkeyPatch,
) -> Sleeper:
    return Sleeper(store, queue, claim_statements, monkeypatch)


def test_after_good_wakes_the_short_statement_claims_the_job(
    queue: Queue, sleeper: Sleeper
) -> None:
    sleeper.learn()
    for _ in range(3):
        (handle,) = sleeper.claim(lambda: queue.enqueue("short"))
        assert sleeper.sent == [FULL, SHORT]
        assert (handle.payload, handle.attempt) == ("short", 1)
        assert handle.ack()


def test_a_batch_that_is_woken_gets_all_that_is_there_in_the_claim_order(
    queue: Queue, sleeper: Sleeper, table: JobTable
) -> None:
    sleeper.learn()
    ids: list[int] = []

    def store_some() -> None:
        ids.extend(queue.enqueue_many(range(3)))
        table.move(ids[0], "run_at", -5)
        table.move(ids[2], "run_at", -9)

    handles = sleeper.claim(store_some, limit=10)
    assert sleeper.sent == [FULL, SOME]
    assert [handle.id for handle in handles] == [ids[2], ids[0], ids[1]]


def test_a_batch_that_is_woken_gets_the_jobs_of_all_priorities(
    queue: Queue, sleeper: Sleeper
) -> None:
    sleeper.learn()
    ids: list[int] = []

    def store_some() -> None:
        ids.extend(queue.enqueue(number, priority=number) for number in (9, 0, 5))

    handles = sleeper.claim(store_some, limit=10)
    assert sleeper.sent == [FULL, SOME, FULL]
    assert [handle.id for handle in handles] == [ids[0], ids[2], ids[1]]


def test_while_full_looks_are_slow_only_they_are_sent(
    store: PostgresStore, queue: Queue, sleeper: Sleeper, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A place that a short claim has reached would hide what it left out."""
    sleeper.learn()
    monkeypatch.setattr("alkstore_postgres.queue.claim_places.SLOW_LOOK", -1.0)
    (handle,) = sleeper.claim(lambda: queue.enqueue("slowly"))
    assert sleeper.sent == [FULL, FULL]
    assert handle.payload == "slowly"


def test_little_is_remembered_of_many_queues() -> None:
    streaks = ClaimStreaks()
    for number in range(10_000):
        streaks.woken(f"user {number}", found=True)
    assert len(streaks._wakes) <= 4096
    streaks = ClaimStreaks()
    streaks.woken("unlucky", found=False)
    assert not streaks._wakes


def test_a_wake_that_leads_to_nothing_is_followed_by_a_full_look(
    queue: Queue, sleeper: Sleeper
) -> None:
    """Another process was quicker: the full statement tells until when to sleep."""
    sleeper.learn()
    (handle,) = sleeper.claim(lambda: None, lambda: queue.enqueue("at last"))
    assert sleeper.sent == [FULL, SHORT, FULL, FULL]
    assert handle.payload == "at last"
    assert handle.ack()
    sleeper.learn(2 * TRUST - 1)  # the last wake was good as well
    sleeper.claim(lambda: queue.enqueue("trusted again"))
    assert sleeper.sent == [FULL, SHORT]


def test_jobs_that_are_delayed_at_a_higher_priority_hide_no_ready_one(
    queue: Queue, sleeper: Sleeper
) -> None:
    sleeper.learn()
    delayed = queue.enqueue("later", priority=9, delay=600)
    (handle,) = sleeper.claim(lambda: queue.enqueue("now"))
    assert sleeper.sent == [FULL, SHORT, FULL]
    assert handle.payload == "now"
    (handle,) = sleeper.claim(lambda: queue.enqueue("now as well"))
    assert sleeper.sent == [FULL, BELOW]
    assert handle.payload == "now as well"
    assert queue.cancel(delayed)


def test_a_lapsed_claim_comes_first_all_the_same(
    queue: Queue, sleeper: Sleeper, table: JobTable
) -> None:
    sleeper.learn()
    urgent = queue.enqueue("urgent", priority=9)
    assert [held.id for held in queue.claim("dead")] == [urgent]

    def lapse() -> None:
        queue.enqueue("ordinary")
        table.lapse(urgent)

    (handle,) = sleeper.claim(lapse)
    assert sleeper.sent[:2] == [FULL, SHORT]
    assert (handle.id, handle.attempt) == (urgent, 2)


def test_an_expired_job_is_not_handed_out(queue: Queue, sleeper: Sleeper, table: JobTable) -> None:
    sleeper.learn()

    def expire() -> None:
        table.move(queue.enqueue("too late", expires=60), "expires_at", -1)
        queue.enqueue("in time")

    (handle,) = sleeper.claim(expire)
    assert handle.payload == "in time"
    assert [dead.payload for dead in queue.dead()] == ["too late"]


def test_where_another_one_sleeps_in_the_process_the_full_statement_is_sent(
    store: PostgresStore, queue: Queue, sleeper: Sleeper
) -> None:
    sleeper.learn()
    others: list[str] = []
    store._parts.hub.attach(queue.name, others.append, shared=True)
    try:
        (handle,) = sleeper.claim(lambda: queue.enqueue("for one of them"))
        assert sleeper.sent == [FULL, FULL]
        assert others
        assert handle.ack()
    finally:
        store._parts.hub.detach(queue.name, others.append)
    sleeper.claim(lambda: queue.enqueue("alone again"))
    assert sleeper.sent == [FULL, SHORT]
