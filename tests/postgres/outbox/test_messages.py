"""The outbox's messages: their stamps, their transaction, and the dead ones."""

from __future__ import annotations

from alkstore.traits import Outbox
from alkstore_postgres import PostgresStore
from tests.support.receiver import Receiver


def test_a_message_has_the_outbox_stamps(store: PostgresStore, outbox: Outbox) -> None:
    job = store.get_job(outbox.enqueue({"order": 1}))
    assert job is not None
    assert job.queue == "__alkstore_outbox:events"
    assert job.visibility_timeout.total_seconds() == 60
    assert job.base_backoff.total_seconds() == 5
    assert job.max_attempts == 5


def test_the_attempt_budget_can_be_set_per_message(store: PostgresStore, outbox: Outbox) -> None:
    job = store.get_job(outbox.enqueue(1, max_attempts=2))
    assert job is not None
    assert job.max_attempts == 2


def test_messages_of_a_transaction_are_delivered_when_it_committed(
    store: PostgresStore, receiver: Receiver, outbox: Outbox
) -> None:
    """Issue of the outbox: a producer that commits late is never skipped."""
    with store.transaction() as late:
        first = store.outbox_enqueue_tx(late, "events", "late")
        second = outbox.enqueue("soon")
        assert outbox.run_once("relay", receiver)
        assert not outbox.run_once("relay", receiver)
    assert outbox.run_once("relay", receiver)
    assert [message for message, _, _ in receiver.got] == [second, first]


def test_dead_messages_can_be_requeued_and_purged(outbox: Outbox, receiver: Receiver) -> None:
    receiver.error = RuntimeError("no")
    first, second = outbox.enqueue(1, max_attempts=1), outbox.enqueue(2, max_attempts=1)
    while outbox.run_once("relay", receiver):
        pass
    assert outbox.stats().dead == 2
    assert outbox.requeue([first]) == 1
    assert outbox.purge([second]) == 1
    receiver.error = None
    assert outbox.run_once("relay", receiver)
    assert receiver.got[-1] == (first, 1, 1)
