"""A random walk over the whole store, on both engines in step.

Every answer is compared, and again and again everything that can be seen. The short walks are the
same at each run. A long one takes other ways each time::

    ALKSTORE_WALK_MINUTES=10 python -m pytest tests/property/test_engines_agree.py
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, seed, settings
from hypothesis import strategies as st
from hypothesis.stateful import initialize, rule, run_state_machine_as_test

from alkstore_postgres import PostgresStore
from tests.support.postgres_harness import PostgresHarness
from tests.support.schedules import ScheduleTable
from tests.support.schemas import Schemas
from tests.support.two_engines import STORES
from tests.support.walk.choices import (
    QUEUES,
    numbers,
    payloads,
    schedule_names,
    schedule_options,
    specs,
)
from tests.support.walk.claims import ClaimRules
from tests.support.walk.closing import ClosingRules
from tests.support.walk.jobs import JobRules
from tests.support.walk.locks import LockRules
from tests.support.walk.messages import MessageRules
from tests.support.walk.refused import REFUSED
from tests.support.walk.schedules import ScheduleRules
from tests.support.walk.wakes import WakeRules

WALK = settings(
    max_examples=10,
    stateful_step_count=50,
    deadline=None,
    derandomize=True,
    print_blob=True,
    suppress_health_check=list(HealthCheck),
)
LONG_WALK = settings(
    WALK, max_examples=50, stateful_step_count=80, derandomize=False, database=None
)


class EnginesAgree(
    JobRules, ClaimRules, LockRules, ScheduleRules, MessageRules, WakeRules, ClosingRules
):
    """All of it, from a beginning with something in it."""

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

    @rule(number=numbers, what=st.integers(0, len(REFUSED) - 1))
    def refuse(self, number: int, what: int) -> None:
        """What one refuses the other does too, in the same words where they are the core's."""
        assert self.engines.call(number, REFUSED[what]) is None


@pytest.fixture
def harness(clocked_schemas: Schemas) -> Iterator[PostgresHarness]:
    """The Postgres engine with hands on its clock."""
    harness = PostgresHarness(clocked_schemas)
    yield harness
    harness.close()


@pytest.fixture
def postgres(harness: PostgresHarness) -> list[PostgresStore]:
    """Its stores; a hand may write anything into the rows of schedules."""
    stores = [harness.open() for _ in range(STORES)]
    ScheduleTable(harness._connection, harness.schema).unprotect()
    return stores


def walk(
    harness: PostgresHarness,
    postgres: list[PostgresStore],
    how: settings,
    number: int | None = None,
) -> None:
    """Walk as *how* says, each time from empty tables; by the way of *number*, if given."""

    class Walk(EnginesAgree):
        def __init__(self) -> None:
            super().__init__(harness, postgres)

    way = Walk if number is None else seed(number)(Walk)
    run_state_machine_as_test(way, settings=how)


WALKS = 3
"""They share the work out: one alone would keep one process busy while the others are done."""

MINUTES = float(os.environ.get("ALKSTORE_WALK_MINUTES", "0"))
"""How long to go on at random, in all, after the walks that are the same each time."""


@pytest.mark.slow
@pytest.mark.timeout(120 + 120 * MINUTES)
@pytest.mark.parametrize("number", range(WALKS))
def test_the_engines_agree_on_everything(
    harness: PostgresHarness, postgres: list[PostgresStore], number: int
) -> None:
    walk(harness, postgres, WALK, number)
    end = time.monotonic() + 60 * MINUTES / WALKS
    while time.monotonic() < end:
        walk(harness, postgres, LONG_WALK)
