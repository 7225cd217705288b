"""Section 8: the outbox."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from alkstore.errors import InvalidName, ReservedName
from alkstore.stop_token import StopToken
from alkstore.testing.contract.base import (
    LIMIT,
    PROMPT,
    Background,
    Contract,
    claim,
    fall_asleep,
    live,
    spanning,
    wait_until,
)
from alkstore.testing.harness import EngineHarness
from alkstore.traits import JobHandle, Outbox, Store


def _in_transaction(store: Store) -> int:
    with store.transaction() as tx:
        return store.outbox_enqueue_tx(tx, "mail", "x")


SENDERS: dict[str, Callable[[Store], int]] = {
    "an enqueue": lambda store: store.outbox("mail").enqueue("x"),
    "an enqueue in a transaction": _in_transaction,
}


class OutboxContract(Contract):
    """Messages are delivered at least once, from a queue that nothing else reaches."""

    @pytest.fixture
    def outbox(self, store: Store) -> Outbox:
        """Return an outbox."""
        return store.outbox("mail")

    def test_the_backing_queue_cannot_be_reached(self, store: Store, outbox: Outbox) -> None:
        backing = "__alkstore_outbox:mail"
        message = outbox.enqueue(1)
        assert live(store, message).queue == backing
        assert [job.id for job in outbox.peek()] == [message]
        with pytest.raises(ReservedName):
            store.queue(backing)
        with pytest.raises(ReservedName):
            store.schedule("s", "@every 1h", backing, 1)
        with store.transaction() as tx, pytest.raises(ReservedName):
            store.enqueue_tx(tx, backing, 1)
        assert store.queue("mail").size() == 0

    def test_an_outbox_has_a_name(self, store: Store) -> None:
        with pytest.raises(InvalidName):
            store.outbox("")
        assert store.outbox("mail").name == "mail"

    def test_a_delivery_that_returns_acknowledges(self, store: Store, outbox: Outbox) -> None:
        message = outbox.enqueue({"to": 1})
        seen: list[object] = []
        assert outbox.run_once("worker", lambda handle: seen.append((handle.id, handle.payload)))
        assert seen == [(message, {"to": 1})]
        assert not outbox.run_once("worker", seen.append)
        assert store.get_job(message) is None
        assert outbox.dead() == []

    def test_one_message_is_delivered_at_a_time(self, outbox: Outbox) -> None:
        messages = [outbox.enqueue(number) for number in range(3)]
        seen: list[int] = []
        for count in range(1, 4):
            assert outbox.run_once("worker", lambda handle: seen.append(handle.id))
            assert seen == messages[:count]
            stats = outbox.stats()
            assert (stats.ready, stats.running) == (3 - count, 0)
        assert not outbox.run_once("worker", lambda handle: seen.append(handle.id))

    @pytest.mark.usefixtures("turns")
    def test_one_store_serves_many_threads_with_an_outbox(self, store: Store) -> None:
        begin = threading.Barrier(4)
        delivered: list[int] = []

        def work() -> list[int]:
            outbox = store.outbox("mail")
            begin.wait(LIMIT)
            sent = [outbox.enqueue(number) for number in range(25)]
            while outbox.run_once("worker", lambda handle: delivered.append(handle.id)):
                pass
            return sent

        threads = [Background(work) for _ in range(4)]
        sent = [message for thread in threads for message in thread.result()]
        while store.outbox("mail").run_once("worker", lambda handle: delivered.append(handle.id)):
            pass
        assert sorted(delivered) == sorted(sent)
        assert len(set(sent)) == 100

    def test_a_queue_of_the_same_name_has_dead_letters_of_its_own(
        self, store: Store, outbox: Outbox
    ) -> None:
        queue = store.queue("mail")
        message, job = outbox.enqueue("x"), queue.enqueue("x")
        assert outbox.run_once("worker", lambda handle: handle.fail("no such address"))
        assert claim(queue).fail("no such customer")
        for own, foreign, there in ((job, message, queue), (message, job, outbox)):
            assert [letter.id for letter in there.dead()] == [own]
            assert there.requeue([foreign]) == 0
            assert there.purge([foreign]) == 0
        assert queue.purge() == 1
        assert [letter.id for letter in outbox.dead()] == [message]
        assert outbox.purge() == 1

    def test_the_delivery_runs_with_the_claim_held(self, store: Store, outbox: Outbox) -> None:
        outbox.enqueue(1)
        states: list[tuple[str, str | None]] = []

        def delivery(handle: JobHandle) -> None:
            job = live(store, handle.id)
            states.append((job.state, job.worker_id))
            fall_asleep()
            assert store.get_job(handle.id) == job  # no heartbeat but the delivery's own
            assert handle.heartbeat()

        assert outbox.run_once("the worker", delivery)
        assert states == [("processing", "the worker")]

    @pytest.mark.parametrize("how", ["run_once", "start_outbox"])
    def test_a_delivery_that_outlasts_its_claim_without_a_heartbeat_may_run_twice(
        self, engine: EngineHarness, store: Store, other: Store, outbox: Outbox, how: str
    ) -> None:
        message = outbox.enqueue(1)
        stayed: list[bool] = []
        again: list[int] = []

        def delivery(handle: JobHandle) -> None:
            job = live(store, handle.id)
            engine.advance(50)
            fall_asleep()
            stayed.append(store.get_job(handle.id) == job)  # nobody has sent a heartbeat
            engine.advance(11)
            other.outbox("mail").run_once("other", lambda second: again.append(second.id))

        if how == "run_once":
            assert outbox.run_once("worker", delivery)
        else:
            runner = store.start_outbox("mail", delivery)
            wait_until(lambda: again)
            assert runner.stop(LIMIT)
        assert stayed == [True]
        assert again == [message]

    def test_the_fifth_failure_is_a_dead_letter_with_its_errors_text(
        self, engine: EngineHarness, store: Store, outbox: Outbox
    ) -> None:
        message = outbox.enqueue("x")

        def delivery(handle: JobHandle) -> None:
            raise OSError(f"failure {handle.attempt}")

        for gap in (5, 10, 20, 40):
            with spanning(engine) as span:
                assert outbox.run_once("worker", delivery)
            assert live(store, message).run_at in span + gap
            assert not outbox.run_once("worker", delivery)
            engine.advance(gap)
        assert outbox.run_once("worker", delivery)
        (letter,) = outbox.dead()
        assert (letter.id, letter.error, letter.attempts) == (message, "failure 5", 5)
        assert outbox.stats().dead == 1
        assert outbox.requeue([message]) == 1
        assert outbox.run_once("worker", lambda _: None)
        assert (outbox.stats().dead, outbox.stats().ready) == (0, 0)

    def test_a_delivery_that_settles_by_itself_is_left_alone(self, outbox: Outbox) -> None:
        outbox.enqueue("x")
        assert outbox.run_once("worker", lambda handle: handle.fail("no such address"))
        (letter,) = outbox.dead()
        assert letter.error == "no such address"
        assert outbox.purge() == 1

    @pytest.mark.parametrize("end", [KeyboardInterrupt, SystemExit])
    def test_an_exit_propagates_also_when_the_message_was_settled_before(
        self, outbox: Outbox, end: type[BaseException]
    ) -> None:
        outbox.enqueue("x")

        def delivery(handle: JobHandle) -> None:
            assert handle.ack()
            raise end

        with pytest.raises(end):
            outbox.run_once("worker", delivery)
        assert outbox.stats().ready == 0

    @pytest.mark.parametrize("end", [KeyboardInterrupt, SystemExit])
    def test_an_exit_releases_the_message_and_propagates(
        self, store: Store, outbox: Outbox, end: type[BaseException]
    ) -> None:
        message = outbox.enqueue("x")

        def delivery(_: JobHandle) -> None:
            raise end

        with pytest.raises(end):
            outbox.run_once("worker", delivery)
        job = live(store, message)
        assert (job.state, job.attempts) == ("pending", 0)
        with pytest.raises(end):
            outbox.run("worker", delivery, StopToken())
        job = live(store, message)
        assert (job.state, job.attempts) == ("pending", 0)

    def test_run_delivers_until_the_stop(self, other: Store, outbox: Outbox) -> None:
        stop = StopToken()
        seen: list[int] = []
        runner = Background(
            lambda: outbox.run("worker", lambda handle: seen.append(handle.id), stop)
        )
        messages = [other.outbox("mail").enqueue(number) for number in range(3)]
        wait_until(lambda: len(seen) == len(messages))
        fall_asleep()
        stop.cancel()
        runner.result(PROMPT)
        assert seen == messages
        assert outbox.stats().ready == 0

    def test_run_is_woken_by_each_message_that_comes_later(
        self, other: Store, outbox: Outbox
    ) -> None:
        stop = StopToken()
        seen: list[int] = []
        runner = Background(
            lambda: outbox.run("worker", lambda handle: seen.append(handle.id), stop)
        )
        messages = [other.outbox("mail").enqueue("the first")]
        wait_until(lambda: seen == messages)
        for _ in range(2):
            fall_asleep()
            messages.append(other.outbox("mail").enqueue("a later one"))
            wait_until(lambda: seen == messages, PROMPT)
        stop.cancel()
        runner.result(PROMPT)

    @pytest.mark.parametrize("send", SENDERS.values(), ids=SENDERS)
    def test_a_message_that_comes_later_wakes_it(
        self, store: Store, other: Store, outbox: Outbox, send: Callable[[Store], int]
    ) -> None:
        seen: list[int] = []
        messages = [outbox.enqueue("the first")]
        runner = store.start_outbox("mail", lambda handle: seen.append(handle.id))
        wait_until(lambda: seen == messages)
        wait_until(lambda: outbox.stats().running == 0)
        fall_asleep()
        messages.append(send(other))
        wait_until(lambda: seen == messages, PROMPT)
        assert runner.stop(LIMIT)

    def test_a_message_with_a_delay_is_delivered_when_it_is_due(
        self, engine: EngineHarness, store: Store, outbox: Outbox
    ) -> None:
        seen: list[int] = []
        runner = store.start_outbox("mail", lambda handle: seen.append(handle.id))
        message = outbox.enqueue("x", delay=3600)
        now = outbox.enqueue("y")
        wait_until(lambda: seen)
        assert seen == [now]
        wait_until(lambda: store.get_job(now) is None)  # acknowledged: it does not lapse
        engine.advance(3600)
        wait_until(lambda: seen == [now, message])
        assert runner.stop(LIMIT)
