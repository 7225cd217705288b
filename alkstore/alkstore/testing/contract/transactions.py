"""Section 9: the transaction seam, as far as every engine has one."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import pytest

from alkstore.errors import (
    EncodeError,
    InvalidConnection,
    InvalidOption,
    NoTransaction,
    StoreClosed,
)
from alkstore.stop_token import StopToken
from alkstore.testing.contract.base import (
    LIMIT,
    PROMPT,
    Background,
    Contract,
    claim,
    fall_asleep,
    live,
    seen_during,
    spanning,
    wait_until,
)
from alkstore.testing.contract.wakes import take_what_was_said
from alkstore.testing.harness import EngineHarness
from alkstore.traits import Store


class Rollback(Exception):
    """What a test leaves a transaction with."""


@contextmanager
def rolled_back(store: Store) -> Iterator[Any]:
    """Lend a transaction that is rolled back at the end of the block."""
    try:
        with store.transaction() as tx:
            yield tx
            raise Rollback  # noqa: TRY301 - it ends the block
    except Rollback:
        return


End = Callable[[Store], AbstractContextManager[Any]]
"""Lends a transaction of a store, and ends it with the block."""


def committed(store: Store) -> AbstractContextManager[Any]:
    """Lend a transaction that is committed at the end of the block."""
    return store.transaction()


ENDS: dict[str, End] = {"committed": committed, "rolled back": rolled_back}


class TransactionsContract(Contract):
    """What goes through the seam is committed or rolled back with the caller's transaction."""

    def test_what_was_enqueued_is_seen_after_the_commit(self, store: Store, other: Store) -> None:
        with store.transaction() as tx:
            job = store.enqueue_tx(tx, "mail", {"n": 1}, delay=0, priority=2, max_attempts=4)
            message = store.outbox_enqueue_tx(tx, "mail", "m")
            assert other.get_job(job) is None
            assert other.queue("mail").claim("worker") == []
        found = live(other, job)
        assert (found.queue, found.payload, found.priority) == ("mail", {"n": 1}, 2)
        assert found.max_attempts == 4
        assert live(other, message).max_attempts == 5

    def test_all_that_was_enqueued_in_one_transaction_is_there_in_its_order(
        self, store: Store, other: Store
    ) -> None:
        with store.transaction() as tx:
            mails: list[int] = []
            texts: list[int] = []
            messages: list[int] = []
            for n in range(3):
                mails.append(store.enqueue_tx(tx, "mail", n))
                texts.append(store.enqueue_tx(tx, "text", -n))
                messages.append(store.outbox_enqueue_tx(tx, "mail", n * 10))
        found = [(one.id, one.payload) for one in other.outbox("mail").peek()]
        assert found == list(zip(messages, [0, 10, 20], strict=True))
        for name, jobs, payloads in (("mail", mails, [0, 1, 2]), ("text", texts, [0, -1, -2])):
            claimed = other.queue(name).claim("worker", 10)
            found = [(one.id, one.payload) for one in claimed]
            assert found == list(zip(jobs, payloads, strict=True))

    def test_nobody_sees_a_part_of_a_commit(self, store: Store, other: Store) -> None:
        def work() -> None:
            with store.transaction() as tx:
                for n in range(300):
                    store.enqueue_tx(tx, "mail", n)

        assert seen_during(work, other.queue("mail").size) == [0, 300]

    @pytest.mark.parametrize("outer", ENDS.values(), ids=ENDS)
    @pytest.mark.parametrize("inner", ENDS.values(), ids=ENDS)
    def test_of_two_open_transactions_each_ends_with_its_own(
        self, store: Store, other: Store, outer: End, inner: End
    ) -> None:
        for second in (store, other):
            with outer(store) as first_tx:
                first = [store.enqueue_tx(first_tx, "mail", 1)]
                with inner(second) as second_tx:
                    within = [second.enqueue_tx(second_tx, "mail", 2)]
                    first.append(store.enqueue_tx(first_tx, "mail", 3))
                    within.append(second.outbox_enqueue_tx(second_tx, "mail", 4))
                found = [other.get_job(job) is not None for job in first + within]
                assert found == [False] * 2 + [inner is committed] * 2
                first.append(store.enqueue_tx(first_tx, "mail", 5))
            found = [other.get_job(job) is not None for job in first + within]
            assert found == [outer is committed] * 3 + [inner is committed] * 2

    @pytest.mark.usefixtures("turns")
    def test_of_open_transactions_of_several_threads_each_ends_with_its_own(
        self, store: Store, other: Store
    ) -> None:
        ends = [committed, rolled_back, committed, rolled_back]
        open_now, ended = threading.Barrier(len(ends)), threading.Barrier(len(ends))

        def work(end: End) -> list[int]:
            jobs: list[int] = []
            for _ in range(5):
                with end(store) as tx:
                    jobs += [store.enqueue_tx(tx, "mail", n) for n in range(5)]
                    open_now.wait(LIMIT)
                    jobs += [store.enqueue_tx(tx, "mail", n) for n in range(5)]
                ended.wait(LIMIT)
            return jobs

        threads = [Background(lambda end=end: work(end)) for end in ends]  # type: ignore[misc]
        for end, thread in zip(ends, threads, strict=True):
            found = {other.get_job(job) is not None for job in thread.result()}
            assert found == {end is committed}
        assert other.queue("mail").size() == 100

    def test_a_delay_counts_from_the_enqueue_not_from_the_commit(
        self, engine: EngineHarness, store: Store
    ) -> None:
        with store.transaction() as tx:
            with spanning(engine) as span:
                job = store.enqueue_tx(tx, "mail", 1, delay=60, expires=600)
                message = store.outbox_enqueue_tx(tx, "mail", 1, delay=60)
            engine.advance(30)
        for stored in (live(store, job), live(store, message)):
            assert stored.run_at in span + 60
            assert stored.enqueued_at in span
        assert live(store, job).expires_at in span + 600
        engine.advance(30)
        assert claim(store.queue("mail")).id == job

    def test_a_rollback_leaves_nothing(self, store: Store) -> None:
        with rolled_back(store) as tx:
            job = store.enqueue_tx(tx, "mail", 1)
            store.outbox_enqueue_tx(tx, "mail", 1)
        assert store.get_job(job) is None
        assert store.queue("mail").size() == 0
        assert store.outbox("mail").stats().ready == 0

    @pytest.mark.parametrize("end", [KeyboardInterrupt, SystemExit, GeneratorExit])
    def test_what_is_no_exception_rolls_back_as_well(
        self, store: Store, end: type[BaseException]
    ) -> None:
        jobs: list[int] = []

        def leave() -> None:
            with store.transaction() as tx:
                jobs.append(store.enqueue_tx(tx, "mail", 1))
                raise end

        with pytest.raises(end):
            leave()
        assert store.get_job(jobs[0]) is None
        assert store.queue("mail").size() == 0

    def test_an_id_that_was_rolled_back_is_not_used_again_by_what_stays(self, store: Store) -> None:
        with rolled_back(store) as tx:
            lost = store.enqueue_tx(tx, "mail", 1)
        kept = store.queue("mail").enqueue(2)
        assert kept != lost
        assert live(store, kept).payload == 2

    def test_a_wake_is_heard_after_the_commit_and_gone_with_a_rollback(
        self, store: Store, other: Store
    ) -> None:
        with other.listen("news", "mark") as listener:
            take_what_was_said(store, listener)
            with rolled_back(store) as tx:
                store.notify_tx(tx, "news")
            store.notify("mark")
            wake = listener.wait(LIMIT)
            assert wake is not None
            assert wake.channel == "mark"
            with store.transaction() as tx:
                store.notify_tx(tx, "news")
                assert listener.wait(0.05) is None
            wake = listener.wait(LIMIT)
            assert wake is not None
            assert wake.channel == "news"

    def test_the_commit_of_an_enqueue_wakes_who_waits(self, store: Store, other: Store) -> None:
        waiter = Background(lambda: other.queue("mail").claim_wait("worker", timeout=LIMIT))
        fall_asleep()
        with store.transaction() as tx:
            job = store.enqueue_tx(tx, "mail", 1)
            fall_asleep()
            assert waiter.running
        assert [handle.id for handle in waiter.result(PROMPT)] == [job]

    def test_a_commit_wakes_all_whom_something_of_it_is_for(
        self, store: Store, other: Store
    ) -> None:
        channels = ("mail", "bills", "news", "sport")
        delivered, stop = threading.Event(), StopToken()
        outbox = other.outbox("mail")
        relay = Background(lambda: outbox.run("relay", lambda _: delivered.set(), stop))
        with other.listen(*channels, "mark") as listener:
            take_what_was_said(store, listener)
            with store.transaction() as tx:
                store.outbox_enqueue_tx(tx, "mail", 1)
                store.notify_tx(tx, "news")
                store.enqueue_tx(tx, "mail", 1)
                store.enqueue_tx(tx, "bills", 1)
                store.notify_tx(tx, "sport")
            wait_until(delivered.is_set, PROMPT)
            heard: set[str] = set()
            for _ in range(4 * len(channels)):  # a hint may come twice
                wake = listener.wait(LIMIT)
                assert wake is not None, f"only {sorted(heard)} were heard"
                heard.add(wake.channel)
                if heard == set(channels):
                    break
            assert heard == set(channels)
        stop.cancel()
        relay.result(PROMPT)

    def test_a_refusal_leaves_the_transaction_as_it_was(self, store: Store) -> None:
        with store.transaction() as tx:
            job = store.enqueue_tx(tx, "mail", 1)
            with pytest.raises(EncodeError):
                store.enqueue_tx(tx, "mail", object())
            with pytest.raises(InvalidOption):
                store.enqueue_tx(tx, "mail", 1, priority=10**6)
        assert live(store, job).payload == 1
        assert store.queue("mail").size() == 1

    def test_a_transaction_that_has_ended_is_refused(self, store: Store) -> None:
        with store.transaction() as tx:
            pass
        for call in (
            lambda: store.enqueue_tx(tx, "mail", 1),
            lambda: store.outbox_enqueue_tx(tx, "mail", 1),
            lambda: store.notify_tx(tx, "mail"),
        ):
            with pytest.raises(NoTransaction):
                call()
        assert store.queue("mail").size() == 0

    @pytest.mark.parametrize("ends", ["commit", "rollback"])
    def test_the_block_of_a_transaction_that_has_ended_is_not_entered_again(
        self, store: Store, ends: str
    ) -> None:
        block = store.transaction()
        if ends == "commit":
            with block as tx:
                store.enqueue_tx(tx, "mail", 1)
        else:
            with pytest.raises(Rollback), block:
                raise Rollback
        with pytest.raises(NoTransaction, match="was entered before"), block:
            pytest.fail("the block of a transaction that has ended ran")
        assert store.queue("mail").size() == (ends == "commit")

    def test_the_block_of_a_transaction_does_not_nest_in_itself_and_goes_on(
        self, store: Store
    ) -> None:
        block = store.transaction()
        with block as tx:
            with pytest.raises(NoTransaction, match="was entered before"), block:
                pytest.fail("a transaction was entered twice")
            store.enqueue_tx(tx, "mail", 1)
        assert store.queue("mail").size() == 1

    def test_the_block_of_a_transaction_that_could_not_begin_is_not_entered_again(
        self, store: Store
    ) -> None:
        block = store.transaction()
        store.close()
        for error in (StoreClosed, NoTransaction):
            with pytest.raises(error), block:
                pytest.fail("a transaction of a closed store began")

    @pytest.mark.parametrize("tx", [None, 5, "transaction", Ellipsis], ids=repr)
    def test_what_is_no_transaction_is_refused(self, store: Store, tx: Any) -> None:
        for call in (
            lambda: store.enqueue_tx(tx, "mail", 1),
            lambda: store.outbox_enqueue_tx(tx, "mail", 1),
            lambda: store.notify_tx(tx, "mail"),
        ):
            with pytest.raises(InvalidConnection) as refused:
                call()
            assert isinstance(refused.value, InvalidOption)

    def test_what_the_block_raises_stays_as_it_is(self, store: Store) -> None:
        error = Rollback("own")
        with pytest.raises(Rollback) as raised, store.transaction():
            raise error
        assert raised.value is error
