"""The outbox: names and options are refused before anything happens."""

from __future__ import annotations

import pytest

from alkstore.errors import InvalidName, InvalidOption, PayloadTooLarge, ReservedName
from alkstore.traits import Outbox
from alkstore_postgres import PostgresStore
from tests.support.receiver import Receiver


def test_an_empty_name_is_refused(store: PostgresStore) -> None:
    with pytest.raises(InvalidName):
        store.outbox("")
    with pytest.raises(InvalidName):
        store.start_outbox("", print)


def test_a_reserved_name_is_refused(store: PostgresStore) -> None:
    with pytest.raises(ReservedName):
        store.outbox("__alkstore_events")


def test_the_backing_queue_is_out_of_reach(store: PostgresStore, outbox: Outbox) -> None:
    backing = "__alkstore_outbox:events"
    with pytest.raises(ReservedName):
        store.queue(backing)
    with pytest.raises(ReservedName):
        store.schedule("tick", "@every 1s", backing, None)
    with store.transaction() as tx, pytest.raises(ReservedName):
        store.enqueue_tx(tx, backing, None)
    assert outbox.stats().ready == 0


def test_bad_arguments_are_refused_and_claim_nothing(outbox: Outbox, receiver: Receiver) -> None:
    outbox.enqueue(1)
    with pytest.raises(InvalidName):
        outbox.run_once("", receiver)
    with pytest.raises(InvalidOption):
        outbox.run_once("relay", None)  # type: ignore[arg-type]
    with pytest.raises(InvalidOption):
        outbox.run("relay", receiver, None)  # type: ignore[arg-type]
    with pytest.raises(InvalidOption):
        outbox.enqueue(1, visibility_timeout=5)  # type: ignore[call-arg]
    with pytest.raises(PayloadTooLarge):
        outbox.enqueue("x" * 2**21)
    assert outbox.stats().ready == 1
