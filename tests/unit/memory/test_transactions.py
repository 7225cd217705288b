"""A memory store's transactions: everything at the commit, or nothing."""

from __future__ import annotations

import re

import pytest

from alkstore import InvalidConnection, NoTransaction
from alkstore.memory import ManualClock, MemoryStore, MemoryTransaction


def test_what_is_written_in_one_is_there_after_the_commit_and_not_before(
    store: MemoryStore,
) -> None:
    queue, outbox = store.queue("mails"), store.outbox("events")
    with store.transaction() as tx:
        job = store.enqueue_tx(tx, "mails", {"to": 1}, priority=3)
        message = store.outbox_enqueue_tx(tx, "events", 2)
        assert queue.size() == 0
        assert queue.claim("w") == []
        assert store.get_job(job) is None
        assert not outbox.run_once("w", print)
    stored = store.get_job(job)
    assert stored is not None
    assert (stored.priority, stored.payload) == (3, {"to": 1})
    got: list[int] = []
    assert outbox.run_once("w", lambda handle: got.append(handle.id))
    assert got == [message]


@pytest.mark.parametrize("error", [RuntimeError("no"), KeyboardInterrupt()])
def test_an_exception_drops_everything_and_goes_on_its_way(
    store: MemoryStore, error: BaseException
) -> None:
    with store.listen("mails", "news") as ear:
        with pytest.raises(type(error)), store.transaction() as tx:  # noqa: PT012 - the point
            lost = store.enqueue_tx(tx, "mails", 1)
            store.notify_tx(tx, "news")
            raise error
        assert store.queue("mails").size() == 0
        assert ear.wait(0) is None
    # As of a sequence: an id that was drawn is gone.
    assert store.queue("mails").enqueue(2) == lost + 1


def test_a_job_is_as_old_as_its_enqueue_and_not_as_its_commit(
    store: MemoryStore, clock: ManualClock
) -> None:
    with store.transaction() as tx:
        began = clock.now()
        job = store.enqueue_tx(tx, "mails", 1, delay=5)
        clock.advance(60)
    stored = store.get_job(job)
    assert stored is not None
    assert stored.enqueued_at == began
    assert store.queue("mails").stats().ready == 1


def test_wakes_are_heard_after_the_commit(store: MemoryStore) -> None:
    with store.listen("mails", "news") as ear:
        with store.transaction() as tx:
            store.enqueue_tx(tx, "mails", 1)
            store.notify_tx(tx, "news")
            store.notify_tx(tx, "news")
            assert ear.wait(0) is None
        heard = [ear.wait(0), ear.wait(0), ear.wait(0)]
    assert [wake and wake.channel for wake in heard] == ["mails", "news", None]


def test_one_that_has_ended_cannot_be_written_to(store: MemoryStore) -> None:
    with store.transaction() as tx:
        pass
    for write in (
        lambda: store.enqueue_tx(tx, "q", 1),
        lambda: store.outbox_enqueue_tx(tx, "o", 1),
        lambda: store.notify_tx(tx, "c"),
    ):
        with pytest.raises(NoTransaction, match="has ended"):
            write()
    assert store.queue("q").size() == 0


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        (None, "NoneType"),
        (MemoryTransaction, "the class MemoryTransaction itself"),
        (object(), "object"),
    ],
)
def test_what_is_no_transaction_is_refused(store: MemoryStore, given: object, shown: str) -> None:
    with pytest.raises(InvalidConnection, match=re.escape(shown)):
        store.enqueue_tx(given, "q", 1)


def test_one_of_a_sibling_will_do_and_one_of_a_stranger_will_not(store: MemoryStore) -> None:
    with store.sibling() as sibling, sibling.transaction() as tx:
        store.enqueue_tx(tx, "q", 1)
    assert store.queue("q").size() == 1
    with (
        MemoryStore() as stranger,
        stranger.transaction() as foreign,
        pytest.raises(InvalidConnection, match="other tables"),
    ):
        store.enqueue_tx(foreign, "q", 1)


def test_two_at_once_do_not_see_each_other(store: MemoryStore) -> None:
    with store.transaction() as one:
        first = store.enqueue_tx(one, "q", "one")
        with store.transaction() as two:
            second = store.enqueue_tx(two, "q", "two")
        assert [handle.id for handle in store.queue("q").claim("w", 10)] == [second]
    assert [handle.id for handle in store.queue("q").claim("w", 10)] == [first]


def test_one_that_is_rolled_back_in_the_block_stays_so(store: MemoryStore) -> None:
    with store.listen("q") as ear:
        with store.transaction() as tx:
            store.enqueue_tx(tx, "q", 1)
            tx.rollback()
            assert tx.has_ended
            with pytest.raises(NoTransaction, match="has ended"):
                store.enqueue_tx(tx, "q", 2)
        assert ear.wait(0) is None
    assert store.queue("q").size() == 0


def test_one_that_is_committed_in_the_block_is_not_committed_again(store: MemoryStore) -> None:
    """A job that is done by the end of the block would come back, and run once more."""
    queue = store.queue("q")
    with store.transaction() as tx:
        job = store.enqueue_tx(tx, "q", 1)
        tx.commit()
        (handle,) = queue.claim("w")
        assert handle.id == job
        assert handle.ack()
    assert queue.size() == 0


def test_what_is_committed_stays_when_the_rest_of_the_block_fails(store: MemoryStore) -> None:
    with pytest.raises(RuntimeError, match="after it"), store.transaction() as tx:  # noqa: PT012 - the point
        job = store.enqueue_tx(tx, "q", 1)
        tx.commit()
        raise RuntimeError("after it")
    assert [one.id for one in store.queue("q").peek()] == [job]


def test_each_ends_once(store: MemoryStore) -> None:
    with store.transaction() as tx:
        assert not tx.has_ended
    for end in (tx.commit, tx.rollback):
        with pytest.raises(NoTransaction, match="has ended"):
            end()
