"""What the tests of runners share."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from alkstore.runners import WorkerRunner
from alkstore.traits import Handler, Queue
from alkstore_postgres import PostgresStore
from tests.support.faults import Faults
from tests.support.programs import CONTROL, PRELUDE, Program


@pytest.fixture
def queue(store: PostgresStore) -> Queue:
    """Return a queue."""
    return store.queue("emails")


@pytest.fixture
def faults(monkeypatch: pytest.MonkeyPatch) -> Faults:
    """Return the faults of this test."""
    return Faults(monkeypatch)


@pytest.fixture
def start() -> Iterator[Callable[..., WorkerRunner]]:
    """Start workers over any queue; they are stopped in the end."""
    running: list[WorkerRunner] = []

    def make(queue: Queue, handler: Handler, concurrency: int = 1) -> WorkerRunner:
        running.append(WorkerRunner(queue, handler, concurrency, "tester").start())
        return running[-1]

    yield make
    for one in running:
        one.stop(5)
        assert one.join(5)


@pytest.fixture
def run(conninfo: str, schema: str, store: PostgresStore) -> Iterator[Callable[[str], Program]]:
    """Start programs over the store's schema."""
    programs: list[Program] = []

    def start(script: str) -> Program:
        programs.append(
            Program(script if script is CONTROL else PRELUDE + script, conninfo, schema)
        )
        return programs[-1]

    yield start
    for program in programs:
        program.kill()
