"""The outbox: messages are delivered at least once, and told apart by their id."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

import psycopg
import pytest

from alkstore._typing import override
from alkstore.errors import InvalidName, InvalidOption, PayloadTooLarge, ReservedName
from alkstore.stop_token import StopToken
from alkstore.traits import JobHandle, Outbox
from alkstore_postgres import PostgresStore
from tests.support.rows import Rows
from tests.support.sessions import kill_sessions
from tests.support.waiting import wait_until


class Receiver:
    """Takes messages and may refuse them."""

    def __init__(self) -> None:
        self.got: list[tuple[int, int, Any]] = []
        self.error: BaseException | None = None

    def __call__(self, handle: JobHandle) -> None:
        self.got.append((handle.id, handle.attempt, handle.payload))
        if self.error is not None:
            raise self.error


@pytest.fixture
def receiver() -> Receiver:
    """Return a receiver that takes everything."""
    return Receiver()


@pytest.fixture
def outbox(store: PostgresStore) -> Outbox:
    """Return an outbox."""
    return store.outbox("events")


@pytest.fixture
def rows(connection: psycopg.Connection[Any], schema: str) -> Rows:
    """Return the rows, to move their times."""
    return Rows(connection, schema)


# Names and options are refused before anything happens.


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


# What is stored.


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


# One delivery and its three dispositions.


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


# Crashes.

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


# The loop and the threads.


def test_run_wakes_for_a_new_message_and_returns_at_once_on_stop(
    outbox: Outbox, receiver: Receiver
) -> None:
    stop = StopToken()
    loop = threading.Thread(target=outbox.run, args=("relay", receiver, stop))
    loop.start()
    try:
        time.sleep(0.3)  # let it park
        began = time.monotonic()
        outbox.enqueue(1)
        wait_until(lambda: receiver.got)
        assert time.monotonic() - began < 1
        wait_until(lambda: outbox.stats().running == 0)
    finally:
        began = time.monotonic()
        stop.cancel()
        loop.join(5)
    assert time.monotonic() - began < 0.2


def test_run_lets_an_exit_through(outbox: Outbox, receiver: Receiver) -> None:
    outbox.enqueue(1)
    receiver.error = KeyboardInterrupt()
    with pytest.raises(KeyboardInterrupt):
        outbox.run("relay", receiver, StopToken())
    assert outbox.stats().ready == 1


def test_run_goes_on_when_its_connections_die(
    store: PostgresStore,
    outbox: Outbox,
    receiver: Receiver,
    connection: psycopg.Connection[Any],
    schema: str,
) -> None:
    """Field case B39."""
    stop = StopToken()
    loop = threading.Thread(target=outbox.run, args=("relay", receiver, stop))
    loop.start()
    try:
        for number in range(5):
            kill_sessions(connection, schema)
            with connection.transaction():
                store.outbox_enqueue_tx(connection, "events", number)
            wait_until(lambda: len(receiver.got) > number)  # noqa: B023 - called here only
    finally:
        stop.cancel()
        loop.join(5)
    assert [payload for _, _, payload in receiver.got] == [0, 1, 2, 3, 4]


def test_a_failing_message_is_not_tried_in_a_hot_loop(
    store: PostgresStore, receiver: Receiver, outbox: Outbox
) -> None:
    """Field case B60."""
    message = outbox.enqueue(1)
    receiver.error = RuntimeError("no")
    relay = store.start_outbox("events", receiver)
    wait_until(lambda: receiver.got)
    time.sleep(1)
    assert receiver.got == [(message, 1, 1)]
    assert relay.health().healthy
    assert relay.stop()


def test_a_slow_delivery_does_not_delay_the_others(
    store: PostgresStore, receiver: Receiver, outbox: Outbox
) -> None:
    """Field case B107."""
    slow = outbox.enqueue("slow", priority=1)
    release = threading.Event()

    def delivery(handle: JobHandle) -> None:
        receiver(handle)
        if handle.id == slow:
            release.wait(30)

    relays = [store.start_outbox("events", delivery) for _ in range(2)]
    wait_until(lambda: receiver.got)
    others = [outbox.enqueue(number) for number in range(100)]
    wait_until(lambda: len(receiver.got) == 101)
    wait_until(lambda: outbox.stats().running == 1)
    assert sorted(message for message, _, _ in receiver.got) == [slow, *others]
    release.set()
    assert [relay.stop() for relay in relays] == [True, True]
    assert outbox.stats().running == 0


def test_an_exit_in_a_relay_thread_releases_and_the_relay_goes_on(
    store: PostgresStore, outbox: Outbox
) -> None:
    """Field case B54."""
    attempts: list[int] = []
    exit_ = SystemExit(3)

    def delivery(handle: JobHandle) -> None:
        attempts.append(handle.attempt)
        if len(attempts) <= 3:
            raise exit_

    relay = store.start_outbox("events", delivery)
    outbox.enqueue(1)
    wait_until(lambda: len(attempts) == 4)
    assert attempts == [1, 1, 1, 1]
    assert relay.last_error is exit_
    wait_until(lambda: relay.state == "working")
    assert relay.stop()


def test_two_outboxes_of_one_database_do_not_touch_each_other(
    store: PostgresStore, receiver: Receiver, outbox: Outbox
) -> None:
    """Field case B109."""
    other = store.outbox("audit")
    for number in range(20):
        outbox.enqueue(number)
        other.enqueue(number)
    elsewhere = Receiver()
    relays = [store.start_outbox("events", receiver), store.start_outbox("audit", elsewhere)]
    wait_until(lambda: len(receiver.got) == len(elsewhere.got) == 20)
    assert [relay.stop() for relay in relays] == [True, True]
    ids = {message for message, _, _ in receiver.got + elsewhere.got}
    assert len(ids) == 40


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
