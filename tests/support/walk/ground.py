"""What the random walk stands on: both engines, what was taken of them, and time."""

from __future__ import annotations

import sys
from contextlib import ExitStack
from datetime import timedelta
from functools import partial
from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from alkstore import JobHandle, LockHandle
from alkstore._typing import override
from alkstore.traits import Listener
from alkstore_postgres import PostgresStore
from tests.support.postgres_harness import PostgresHarness
from tests.support.two_engines import Pair, TwoEngines
from tests.support.walk.choices import OUTBOXES, QUEUES, picks, spans
from tests.support.walk.ears import Ears


class _GivenUp(Exception):
    """What a transaction is left with that is to be rolled back."""


class Ground(RuleBasedStateMachine):
    """Does everything twice; the rules of the mechanisms are added by subclasses.

    Args:
        harness: The Postgres engine with hands on its clock.
        postgres: Its stores, over tables that this run empties.
    """

    def __init__(self, harness: PostgresHarness, postgres: list[PostgresStore]) -> None:
        super().__init__()
        self.engines = TwoEngines(harness, postgres)
        self.ears = Ears(self.engines.data, postgres)
        self.handles: list[Pair[JobHandle]] = []
        self.locks: list[Pair[LockHandle]] = []
        self.listeners: list[tuple[Pair[Listener], int]] = []
        self.steps = 0
        self.open: list[tuple[ExitStack, Pair[Any]]] = []
        self._raised_before = sys.exc_info()[1]

    @override
    def teardown(self) -> None:
        try:
            while self.open:
                self._end(commit=False)
            # A walk that has failed already tells of that and not of what follows from it.
            if sys.exc_info()[1] is self._raised_before:
                self.ears.compare()
                self._compare()
        finally:
            for listener, _ in self.listeners:
                self.engines.on(listener, lambda one: one.close())
            self.ears.close()
            self.engines.close()

    @invariant()
    def everything_visible_is_the_same(self) -> None:
        # Answers and wakes are compared at each step, all that there is at each third and at
        # the end.
        self.steps += 1
        self.ears.compare()
        if self.steps % 3 == 0:
            self._compare()

    def _compare(self) -> None:
        self.engines.compare(QUEUES, OUTBOXES)
        for handles in (self.handles, self.locks):
            for pair in handles[-50:]:
                self.engines.both(partial(_itself, pair.memory), partial(_itself, pair.postgres))

    def _at(self, options: dict[str, Any], name: str) -> dict[str, Any]:
        """Return *options* with an offset from now made a time."""
        if name not in options:
            return options
        return {**options, name: self.engines.clock.now() + timedelta(seconds=options[name])}

    def _keep(self, claimed: Pair[list[JobHandle]] | None) -> None:
        if claimed is not None:
            both = zip(claimed.memory, claimed.postgres, strict=True)
            self.handles += [Pair(*handles) for handles in both]

    @rule(span=spans)
    def let_time_pass(self, span: float) -> None:
        self.engines.advance(timedelta(seconds=span))

    @rule(pick=picks, off=st.sampled_from([0, 0, -1, 1]))
    def go_to_a_moment_at_which_something_changes(self, pick: int, off: int) -> None:
        far = self.engines.clock.now() + timedelta(days=1_000)
        moments = [moment for moment in self.engines.moments() if moment < far]
        if moments:
            moment = moments[pick % len(moments)] + timedelta(microseconds=off)
            self.engines.advance(moment - self.engines.clock.now())

    def _end(self, *, commit: bool) -> None:
        stack, _ = self.open.pop()
        if commit:
            stack.close()
            return
        with pytest.raises(_GivenUp), stack:
            raise _GivenUp


def _itself(handle: JobHandle | LockHandle) -> JobHandle | LockHandle:
    return handle
