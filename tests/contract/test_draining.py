"""Tests of applications drain a queue or an outbox in place, with either engine."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

import pytest

from alkstore import InvalidOption, JobHandle, Queue, Store
from alkstore.testing import EngineHarness, assert_dead, assert_enqueued, deliver_all, drain


def test_a_drain_runs_what_is_due_and_what_that_enqueues(store: Store) -> None:
    queue = store.queue("mail")
    first = queue.enqueue(2)
    later = queue.enqueue(0, delay=60)
    seen: list[int] = []

    def handler(handle: JobHandle) -> None:
        seen.append(handle.payload)
        if handle.payload:
            queue.enqueue(handle.payload - 1)

    done = drain(store, "mail", handler)
    assert seen == [2, 1, 0]
    assert (len(done), done.acked[0], done.errors) == (3, first, [])
    assert [job.id for job in queue.peek()] == [later]


def test_a_drain_tells_what_became_of_each_job(engine: EngineHarness, store: Store) -> None:
    queue = store.queue("mail", max_attempts=2)
    acked, retried, failed, cancelled = queue.enqueue_many(["ack", "raise", "fail", "cancel"])

    def handler(handle: JobHandle) -> None:
        if handle.payload == "raise":
            raise OSError("smtp")
        if handle.payload == "fail":
            handle.fail("no")
        if handle.payload == "cancel":
            queue.cancel(handle.id)

    done = drain(store, "mail", handler)
    assert [(run.id, run.fate) for run in done.runs] == [
        (acked, "acked"), (retried, "retried"), (failed, "dead"), (cancelled, "gone"),
    ]  # fmt: skip
    assert (done.acked, done.retried, done.dead) == ([acked], [retried], [failed])
    assert [str(error) for error in done.errors] == ["smtp"]
    engine.advance(60)
    assert drain(store, "mail", handler).dead == [retried]
    assert_dead(queue, "raise", error="smtp", attempts=2)


AFTERWARDS: dict[str, tuple[Callable[[Queue, JobHandle], object], str]] = {
    "purged": (lambda queue, handle: (handle.fail("no"), queue.purge([handle.id])), "acked"),
    "requeued": (
        lambda queue, handle: (handle.fail("no"), queue.requeue([handle.id])),
        "released",
    ),
    "cancelled": (lambda queue, handle: (handle.release(), queue.cancel(handle.id)), "acked"),
}


@pytest.mark.parametrize(("work", "fate"), AFTERWARDS.values(), ids=AFTERWARDS)
def test_what_a_handler_does_with_a_job_that_it_has_settled_hides_how(
    store: Store, work: Callable[[Queue, JobHandle], object], fate: str
) -> None:
    queue, worked = store.queue("mail"), False
    job = queue.enqueue(1)

    def handler(handle: JobHandle) -> None:
        nonlocal worked
        if not worked:
            worked = True
            work(queue, handle)

    first = drain(store, "mail", handler).runs[0]
    assert (first.id, first.fate) == (job, fate)


def test_a_drain_raises_what_the_handler_raised_if_that_is_wished(store: Store) -> None:
    store.queue("mail").enqueue(1)
    with pytest.raises(ZeroDivisionError):
        drain(store, "mail", lambda handle: handle.payload / 0, raising=True)
    assert_enqueued(store.queue("mail"), attempts=1)


def test_an_interrupt_ends_a_drain_and_gives_the_job_back(store: Store) -> None:
    store.queue("mail").enqueue(1)

    def handler(_: JobHandle) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        drain(store, "mail", handler)
    assert_enqueued(store.queue("mail"), attempts=0, state="pending")


@pytest.mark.parametrize("end", [pytest.fail, pytest.skip, pytest.xfail])
def test_what_ends_the_test_inside_a_handler_ends_the_test(
    store: Store, end: Callable[[str], NoReturn]
) -> None:
    store.queue("mail").enqueue(1)
    store.outbox("mail").enqueue(1)
    with pytest.raises(BaseException, match="enough") as ended:
        drain(store, "mail", lambda _: end("enough"))
    assert not isinstance(ended.value, Exception)
    assert_enqueued(store.queue("mail"), attempts=1, state="pending")
    with pytest.raises(BaseException, match="enough") as ended:
        deliver_all(store, "mail", lambda _: end("enough"))
    assert not isinstance(ended.value, Exception)
    assert_enqueued(store.outbox("mail"), attempts=1, state="pending")


def test_an_exit_of_a_handler_is_a_failed_attempt_as_in_a_worker(store: Store) -> None:
    job = store.queue("mail").enqueue(1)

    def handler(_: JobHandle) -> None:
        raise SystemExit(3)

    done = drain(store, "mail", handler)
    assert (done.retried, [type(error) for error in done.errors]) == ([job], [SystemExit])


def test_an_exit_of_a_delivery_gives_the_message_back_and_goes_on_its_way(store: Store) -> None:
    store.outbox("mail").enqueue(1)

    def delivery(_: JobHandle) -> None:
        raise SystemExit(3)

    with pytest.raises(SystemExit):
        deliver_all(store, "mail", delivery)
    assert_enqueued(store.outbox("mail"), attempts=0, state="pending")


def test_a_limit_that_is_just_enough_is_no_error(store: Store) -> None:
    store.queue("mail").enqueue_many([1, 2])
    store.queue("mail").enqueue(3, delay=60)
    store.outbox("mail").enqueue(1)
    store.outbox("mail").enqueue(2)
    assert len(drain(store, "mail", lambda _: None, limit=2)) == 2
    assert len(deliver_all(store, "mail", lambda _: None, limit=2)) == 2


def test_no_attempt_is_made_beyond_the_limit(store: Store) -> None:
    queue, outbox = store.queue("mail"), store.outbox("mail")
    for number in range(3):
        queue.enqueue(number)
        outbox.enqueue(number)
    with pytest.raises(AssertionError, match="still not empty after 2 attempts"):
        drain(store, "mail", lambda _: None, limit=2)
    with pytest.raises(AssertionError, match="still not empty after 2 attempts"):
        deliver_all(store, "mail", lambda _: None, limit=2)
    assert_enqueued(queue, 2, attempts=0, count=1)
    assert_enqueued(outbox, 2, attempts=0, count=1)


async def coroutine_function(_: JobHandle) -> None:
    raise AssertionError


@pytest.mark.parametrize("there", [0, 1])
@pytest.mark.parametrize("draining", [drain, deliver_all])
def test_what_a_drain_cannot_do_is_refused_before_anything_runs(
    store: Store, there: int, draining: Any
) -> None:
    for _ in range(there):
        store.queue("mail").enqueue(1)
        store.outbox("mail").enqueue(1)
    for limit in (None, -1, 0, True, "5"):
        with pytest.raises(InvalidOption, match="limit must be an int from 1 to 1000000, not "):
            draining(store, "mail", lambda _: None, limit=limit)
    for work in (None, "send"):
        with pytest.raises(InvalidOption, match=r"must be callable, not a (NoneType|str)$"):
            draining(store, "mail", work)
    with pytest.raises(InvalidOption, match=r"a coroutine function \(async def\) does nothing"):
        draining(store, "mail", coroutine_function)
    for source in (store.queue("mail"), store.outbox("mail")):
        assert_enqueued(source, count=there)
        assert_enqueued(source, count=there, attempts=0)


def test_what_only_made_a_coroutine_has_failed(store: Store) -> None:
    def work(handle: JobHandle) -> object:
        return coroutine_function(handle)

    job = store.queue("mail").enqueue(1)
    message = store.outbox("mail").enqueue(1)
    for done, expected in (
        (drain(store, "mail", work), job),
        (deliver_all(store, "mail", work), message),
    ):
        assert (done.retried, [type(error) for error in done.errors]) == ([expected], [TypeError])


def test_a_drain_that_never_ends_is_ended(store: Store) -> None:
    store.queue("mail").enqueue(1)
    with pytest.raises(AssertionError, match="still not empty after 7 attempts"):
        drain(store, "mail", lambda handle: handle.release(), limit=7)


def test_all_messages_are_delivered_in_place(engine: EngineHarness, store: Store) -> None:
    outbox = store.outbox("mail")
    good, bad = outbox.enqueue("good"), outbox.enqueue("bad", max_attempts=2)

    def delivery(handle: JobHandle) -> None:
        if handle.payload == "bad":
            raise OSError("smtp")

    assert_enqueued(outbox, count=2)
    done = deliver_all(store, "mail", delivery)
    assert (done.acked, done.retried, done.dead) == ([good], [bad], [])
    engine.advance(5)
    with pytest.raises(OSError, match="smtp"):
        deliver_all(store, "mail", delivery, raising=True)
    assert_dead(outbox, "bad", error="smtp")
    assert len(deliver_all(store, "mail", delivery)) == 0
