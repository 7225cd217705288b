"""A handle settles the job of the data that it was claimed from, and no other's."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from alkstore import InvalidOption, JobHandle, Queue, Store
from tests.contract.conftest import Harness
from tests.support.memory_harness import MemoryHarness
from tests.support.postgres_harness import PostgresHarness

CALLS: dict[str, Callable[[Queue, list[JobHandle]], int]] = {
    "ack_many": lambda queue, handles: queue.ack_many(handles),
    "heartbeat_many": lambda queue, handles: queue.heartbeat_many(handles),
}
calls = pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)


@pytest.fixture
def elsewhere(engine: Harness, request: pytest.FixtureRequest) -> Iterator[Store]:
    """Return a store on other data, which began as that of `store` did."""
    if isinstance(engine, MemoryHarness):
        harness: Harness = MemoryHarness()
    else:
        harness = PostgresHarness(request.getfixturevalue("clocked_schemas"))
    yield harness.open()
    harness.close()


def claimed(store: Store) -> JobHandle:
    """Return the claim of the first job of a store."""
    queue = store.queue("mail")
    queue.enqueue(1)
    (handle,) = queue.claim("w")
    return handle


@calls
def test_a_handle_of_other_data_is_refused_and_nothing_changes(
    store: Store, elsewhere: Store, call: Callable[[Queue, list[JobHandle]], int]
) -> None:
    foreign, own = claimed(elsewhere), claimed(store)
    assert foreign.id == own.id
    before = store.get_job(own.id), elsewhere.get_job(foreign.id)
    for handles in ([foreign], [own, foreign]):
        with pytest.raises(InvalidOption):
            call(store.queue("mail"), handles)
    assert (store.get_job(own.id), elsewhere.get_job(foreign.id)) == before
    assert not any(flag for one in (foreign, own) for flag in (one.lost, one.settled))
    assert own.ack()
    assert foreign.ack()


@calls
def test_it_is_refused_before_the_database_is_asked(
    store: Store, elsewhere: Store, call: Callable[[Queue, list[JobHandle]], int]
) -> None:
    foreign, queue = claimed(elsewhere), store.queue("mail")
    store.close()  # what comes to the database now is told that
    with pytest.raises(InvalidOption):
        call(queue, [foreign])
