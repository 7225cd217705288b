"""Section 5: looking at live jobs without touching them."""

from __future__ import annotations

from typing import Any

import pytest

from alkstore.errors import InvalidOption
from alkstore.testing.contract.base import Contract, claim
from alkstore.testing.harness import EngineHarness
from alkstore.traits import Queue, Store


class PeekingContract(Contract):
    """Whoever looks sees what waits, then what is held, in one order whatever happened before."""

    def test_peek_shows_those_that_wait_in_claim_order_then_those_that_are_held(
        self, store: Store, queue: Queue
    ) -> None:
        held, low = queue.enqueue("held"), queue.enqueue("low", priority=-1)
        claim(queue)
        later = queue.enqueue("later", delay=60, max_attempts=7)
        high = queue.enqueue("high", priority=1)
        store.queue("another").enqueue(1)
        jobs = queue.peek()
        assert [job.id for job in jobs] == [high, later, low, held]
        assert jobs == [store.get_job(job.id) for job in jobs]
        assert [job.payload for job in queue.peek(2)] == ["high", "later"]
        assert queue.stats().running == 1

    @pytest.mark.parametrize("limit", [0, 10_001, "1", None, True])
    def test_peek_refuses_a_limit_out_of_range(self, queue: Queue, limit: Any) -> None:
        with pytest.raises(InvalidOption):
            queue.peek(limit)

    def test_peek_shows_what_waits_before_a_lapsed_claim_whatever_the_limit(
        self, engine: EngineHarness, store: Store
    ) -> None:
        queue = store.queue("mail", visibility_timeout=10)
        lapsed = queue.enqueue("lapsed", priority=5)
        claim(queue)
        waits, urgent = queue.enqueue("waits"), queue.enqueue("urgent", priority=9)
        engine.advance(11)
        # An engine may move lapsed claims among what can be claimed: they are held nevertheless.
        assert claim(queue).id == urgent
        assert [job.id for job in queue.peek(1)] == [waits]
        assert [job.id for job in queue.peek(2)] == [waits, lapsed]
        jobs = queue.peek()
        assert [job.id for job in jobs] == [waits, lapsed, urgent]
        assert [job.state for job in jobs] == ["pending", "processing", "processing"]
        assert jobs == [store.get_job(job.id) for job in jobs]

    def test_peek_shows_lapsed_claims_in_the_order_of_their_lapse(
        self, engine: EngineHarness, store: Store
    ) -> None:
        queue = store.queue("mail", visibility_timeout=10)
        lapsed = []
        for priority in (0, 5):
            lapsed.append(queue.enqueue(priority, priority=priority))
            claim(queue)
            engine.advance(1)
        engine.advance(20)
        top = queue.enqueue("top", priority=9)
        assert claim(queue).id == top
        last = store.queue("mail", visibility_timeout=5).enqueue("last", priority=8)
        assert claim(queue).id == last
        engine.advance(6)
        assert [job.id for job in queue.peek()] == [*lapsed, last, top]
        assert [job.id for job in queue.peek(3)] == [*lapsed, last]
        # What is taken again is held by another claim, which lapses later.
        assert claim(queue).id == last
        assert [job.id for job in queue.peek()] == [*lapsed, top, last]
