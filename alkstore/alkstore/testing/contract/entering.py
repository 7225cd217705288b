"""Section 4: what is stamped on a job, whichever way it takes into its queue."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from alkstore.testing.contract.base import Contract, live, spanning
from alkstore.testing.harness import EngineHarness
from alkstore.traits import Store

Enter = Callable[[Store, Any], list[int]]
"""Enqueues with options; returns the ids."""

Stamps = tuple[int, timedelta, timedelta]
"""An attempt budget, a visibility timeout and a base backoff."""

OF_A_QUEUE: Stamps = (3, timedelta(seconds=300), timedelta(seconds=60))
OF_AN_OUTBOX: Stamps = (5, timedelta(seconds=60), timedelta(seconds=5))


def _tx(store: Store, options: Any) -> list[int]:
    with store.transaction() as tx:
        return [store.enqueue_tx(tx, "mail", 1, **options)]


def _outbox_tx(store: Store, options: Any) -> list[int]:
    with store.transaction() as tx:
        return [store.outbox_enqueue_tx(tx, "mail", 1, **options)]


ENQUEUES: dict[str, Enter] = {
    "enqueue": lambda store, options: [store.queue("mail").enqueue(1, **options)],
    "enqueue_many": lambda store, options: store.queue("mail").enqueue_many([1, 2], **options),
    "enqueue_tx": _tx,
    "outbox": lambda store, options: [store.outbox("mail").enqueue(1, **options)],
    "outbox_enqueue_tx": _outbox_tx,
}

DEFAULTS: dict[str, Stamps] = {
    name: OF_AN_OUTBOX if name.startswith("outbox") else OF_A_QUEUE for name in ENQUEUES
}


class EnteringContract(Contract):
    """The defaults and the options are the same for every way to enqueue."""

    @pytest.mark.parametrize("way", ENQUEUES)
    def test_each_way_to_enqueue_stamps_its_defaults(
        self, engine: EngineHarness, store: Store, way: str
    ) -> None:
        with spanning(engine) as span:
            jobs = ENQUEUES[way](store, {})
        assert jobs
        for job in (live(store, each) for each in jobs):
            stamps = (job.max_attempts, job.visibility_timeout, job.base_backoff)
            assert stamps == DEFAULTS[way]
            assert (job.priority, job.expires_at, job.attempts) == (0, None, 0)
            assert job.run_at in span
            assert job.enqueued_at in span

    @pytest.mark.parametrize("way", ENQUEUES)
    def test_each_way_to_enqueue_obeys_each_option(
        self, engine: EngineHarness, store: Store, way: str
    ) -> None:
        _, visibility_timeout, base_backoff = DEFAULTS[way]
        moment = engine.now() + timedelta(seconds=40)
        given = {"run_at": moment, "priority": -7, "expires": 90, "max_attempts": 9}
        with spanning(engine) as span:
            jobs = ENQUEUES[way](store, given)
        assert jobs
        for job in (live(store, each) for each in jobs):
            assert (job.run_at, job.priority, job.max_attempts) == (moment, -7, 9)
            assert job.expires_at in span + 90
            assert job.enqueued_at in span
            # Those that cannot be given stay what they are.
            assert (job.visibility_timeout, job.base_backoff) == (visibility_timeout, base_backoff)

    @pytest.mark.parametrize("way", ENQUEUES)
    def test_a_delay_counts_from_now_whichever_way_is_taken(
        self, engine: EngineHarness, store: Store, way: str
    ) -> None:
        with spanning(engine) as span:
            jobs = ENQUEUES[way](store, {"delay": timedelta(seconds=40)})
        assert jobs
        for job in (live(store, each) for each in jobs):
            assert job.run_at in span + 40
            assert job.enqueued_at in span
