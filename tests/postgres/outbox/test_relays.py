"""Relays: the outbox's loop, in the caller's thread and in threads of its own."""

from __future__ import annotations

import threading
import time
from typing import Any

import psycopg
import pytest

from alkstore.stop_token import StopToken
from alkstore.traits import JobHandle, Outbox
from alkstore_postgres import PostgresStore
from tests.support.receiver import Receiver
from tests.support.sessions import kill_sessions
from tests.support.timing import in_time
from tests.support.waiting import rest, wait_until


def test_run_wakes_for_a_new_message_and_returns_at_once_on_stop(
    outbox: Outbox, receiver: Receiver
) -> None:
    def wake() -> float:
        seen = len(receiver.got)
        rest(0.3)  # let it park
        began = time.monotonic()
        outbox.enqueue(1)
        wait_until(lambda: len(receiver.got) > seen)
        took = time.monotonic() - began
        wait_until(lambda: outbox.stats().running == 0)
        return took

    def run() -> float:
        stop = StopToken()
        loop = threading.Thread(target=outbox.run, args=("relay", receiver, stop))
        loop.start()
        try:
            in_time(wake, 1)
        finally:
            began = time.monotonic()
            stop.cancel()
            loop.join(5)
        took = time.monotonic() - began
        assert not loop.is_alive()
        return took

    in_time(run, 0.2)


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
