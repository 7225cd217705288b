"""One delivery: messages are delivered at least once, and told apart by their id."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import psycopg
import pytest

from alkstore._typing import override
from alkstore.traits import JobHandle, Outbox
from alkstore_postgres import PostgresStore
from tests.support.receiver import Receiver
from tests.support.rows import Rows
from tests.support.sessions import kill_sessions


def test_with_nothing_to_deliver_it_says_so(outbox: Outbox, receiver: Receiver) -> None:
    assert outbox.run_once("relay", receiver) is False
    assert receiver.got == []


def test_a_delivery_that_returns_acknowledges(outbox: Outbox, receiver: Receiver) -> None:
    message = outbox.enqueue({"order": 1})
    assert outbox.run_once("relay", receiver) is True
    assert receiver.got == [(message, 1, {"order": 1})]
    assert outbox.run_once("relay", receiver) is False
    assert outbox.stats().running == 0


def test_failures_follow_the_curve_and_the_fifth_is_a_dead_letter_with_its_text(
    outbox: Outbox, receiver: Receiver, rows: Rows
) -> None:
    message = outbox.enqueue({"order": 1})
    for attempt, gap in enumerate((5, 10, 20, 40), start=1):
        receiver.error = RuntimeError(f"broker said no, {attempt}")
        assert outbox.run_once("relay", receiver)
        assert gap - 2 < rows.gap(message) <= gap
        rows.make_due()
    receiver.error = RuntimeError("broker said no for ever")
    assert outbox.run_once("relay", receiver)
    (letter,) = outbox.dead()
    assert (letter.id, letter.attempts, letter.error) == (message, 5, "broker said no for ever")
    assert [attempt for _, attempt, _ in receiver.got] == [1, 2, 3, 4, 5]
    assert not outbox.run_once("relay", receiver)


class Unspeakable(Exception):
    """An error whose text cannot be had."""

    @override
    def __str__(self) -> str:
        raise RuntimeError


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (Unspeakable(), "Unspeakable"),
        (ValueError(), "ValueError"),
        (ValueError("a\0b\ud800"), "a\\x00b\\ud800"),
        (GeneratorExit(), "GeneratorExit"),
    ],
)
def test_a_failure_can_always_be_recorded(
    outbox: Outbox, receiver: Receiver, error: BaseException, text: str
) -> None:
    """Field case B92."""
    outbox.enqueue(1, max_attempts=1)
    receiver.error = error
    assert outbox.run_once("relay", receiver)
    assert [letter.error for letter in outbox.dead()] == [text]


@pytest.mark.parametrize("exit_", [KeyboardInterrupt(), SystemExit(3)])
def test_an_exit_releases_the_message_and_propagates(
    store: PostgresStore, outbox: Outbox, receiver: Receiver, exit_: BaseException
) -> None:
    message = outbox.enqueue(1)
    receiver.error = exit_
    with pytest.raises(type(exit_)) as caught:
        outbox.run_once("relay", receiver)
    assert caught.value is exit_
    job = store.get_job(message)
    assert job is not None
    assert (job.state, job.attempts) == ("pending", 0)
    receiver.error = None
    assert outbox.run_once("relay", receiver)
    assert [attempt for _, attempt, _ in receiver.got] == [1, 1]


def test_a_payload_that_does_not_decode_is_a_failed_delivery(
    outbox: Outbox, receiver: Receiver, rows: Rows
) -> None:
    """Field case B54."""
    rows.damage(outbox.enqueue(1, max_attempts=1))
    good = outbox.enqueue("good")
    while outbox.run_once("relay", receiver):
        pass
    assert [message for message, _, _ in receiver.got] == [good]
    assert len(outbox.dead()) == 1


def test_what_the_delivery_settled_itself_stays_so(store: PostgresStore, outbox: Outbox) -> None:
    message = outbox.enqueue(1)

    def delivery(handle: JobHandle) -> None:
        assert handle.release()

    assert outbox.run_once("relay", delivery)
    job = store.get_job(message)
    assert job is not None
    assert job.state == "pending"


def test_the_heartbeat_is_the_delivery_s_own(outbox: Outbox, rows: Rows) -> None:
    message = outbox.enqueue(1)
    held: list[float] = []

    def delivery(handle: JobHandle) -> None:
        rows.lapse()
        held.append(rows.held_for(message))
        assert handle.heartbeat()
        held.append(rows.held_for(message))

    assert outbox.run_once("relay", delivery)
    assert held[0] < 0
    assert 50 < held[1] <= 60


def test_no_connection_and_no_transaction_is_held_during_a_delivery(
    open_store: Callable[..., PostgresStore], connection: psycopg.Connection[Any]
) -> None:
    """Field cases B85 and B107: a pool of one connection, which the delivery uses itself."""
    outbox = open_store(min_size=1, max_size=1).outbox("events")
    outbox.enqueue(1)

    def delivery(_handle: JobHandle) -> None:
        outbox.enqueue("from within")
        busy = connection.execute(
            "SELECT count(*) FROM pg_stat_activity"
            " WHERE pid <> pg_backend_pid() AND xact_start IS NOT NULL"
            " AND backend_type = 'client backend' AND datname = current_database()"
            " AND application_name LIKE 'alkstore%'"
        ).fetchone()
        assert busy == (0,)

    assert outbox.run_once("relay", delivery)
    assert outbox.stats().ready == 1


def test_a_connection_killed_during_the_delivery_costs_nothing(
    open_store: Callable[..., PostgresStore],
    receiver: Receiver,
    connection: psycopg.Connection[Any],
    schema: str,
) -> None:
    """Field cases B33 and B56: the acknowledgement takes a fresh connection."""
    outbox = open_store(min_size=1, max_size=1).outbox("events")
    message = outbox.enqueue(1)

    def delivery(handle: JobHandle) -> None:
        receiver(handle)
        assert kill_sessions(connection, schema)

    assert outbox.run_once("relay", delivery)
    assert [one for one, _, _ in receiver.got] == [message]
    assert outbox.stats().running == 0


KILLED_AFTER_DELIVERY = """
import os, signal, sys
import alkstore_postgres
store = alkstore_postgres.open(sys.argv[1], sys.argv[2], migrate=False)
def delivery(handle):
    print(handle.id, handle.attempt, flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
store.outbox("events").run_once("relay", delivery)
"""


def test_killed_between_delivery_and_ack_it_is_delivered_again_under_the_same_id(
    conninfo: str, schema: str, outbox: Outbox, receiver: Receiver, rows: Rows
) -> None:
    """Field case B108."""
    message = outbox.enqueue("pay")
    command = [sys.executable, "-c", KILLED_AFTER_DELIVERY, conninfo, schema]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == -signal.SIGKILL
    assert done.stdout.split() == [str(message), "1"]
    assert not outbox.run_once("relay", receiver)
    rows.lapse()
    assert outbox.run_once("relay", receiver)
    assert receiver.got == [(message, 2, "pay")]
