"""What `alkstore.testing` gives to tests of applications works with either engine."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any, NoReturn
from unittest import mock

import pytest

from alkstore import InvalidOption, JobHandle, Store
from alkstore.memory import ManualClock, MemoryStore
from alkstore.testing import (
    EngineHarness,
    assert_dead,
    assert_enqueued,
    assert_not_enqueued,
    assert_scheduled,
    deliver_all,
    drain,
    fire_due,
)

# Assertions


def test_what_was_enqueued_is_found_by_payload_and_fields(store: Store) -> None:
    queue = store.queue("mail")
    job = queue.enqueue({"to": "ann", "n": 1}, priority=5)
    queue.enqueue(None)
    assert [found.id for found in assert_enqueued(queue, {"to": "ann", "n": mock.ANY})] == [job]
    assert [found.id for found in assert_enqueued(queue, priority=5)] == [job]
    assert_enqueued(queue, count=2)
    assert_enqueued(queue, None, count=1)
    assert_not_enqueued(queue, {"to": "bob"})
    assert_not_enqueued(store.queue("another"))


def test_a_failed_assertion_shows_what_was_wanted_and_what_is_there(store: Store) -> None:
    queue = store.queue("mail")
    queue.enqueue({"to": "ann"})
    with pytest.raises(AssertionError) as failed:
        assert_enqueued(queue, {"to": "bob"}, priority=3)
    message = str(failed.value)
    assert (
        "expected at least 1 live job in 'mail' with payload={'to': 'bob'}, priority=3" in message
    )
    assert "found 0; there is:\n  {'to': 'ann'} Job(" in message
    with pytest.raises(AssertionError, match="expected 2 live job in 'mail', found 1"):
        assert_enqueued(queue, count=2)
    with pytest.raises(AssertionError, match="expected 0 live job"):
        assert_not_enqueued(queue)
    with pytest.raises(AssertionError, match="there is: nothing"):
        assert_enqueued(store.queue("another"))


@pytest.mark.parametrize("there", [0, 1])
def test_a_field_that_does_not_exist_is_a_mistake_of_the_test(store: Store, there: int) -> None:
    queue = store.queue("mail")
    queue.enqueue_many([1] * there)
    known = "it has: attempts, .*, priority, queue, raw, run_at, .*, worker_id$"
    for mistaken in (
        lambda: assert_enqueued(queue, colour="red"),
        lambda: assert_enqueued(queue, {"another": 1}, count=0, colour="red"),
        lambda: assert_not_enqueued(queue, {"another": 1}, colour="red"),
    ):
        with pytest.raises(TypeError, match="a Job has no 'colour'; " + known):
            mistaken()
    for field in ("colour", "count", "stored", "peek", "__class__"):
        with pytest.raises(TypeError, match=f"a Job has no '{field}'"):
            assert_not_enqueued(queue, **{field: 1})
    with pytest.raises(
        TypeError, match=r"a DeadJob has no 'colour'; it has: .*, died_at, .*, raw, "
    ):
        assert_dead(queue, count=0, colour="red")
    with pytest.raises(
        TypeError, match=r"a Schedule has no 'colour'; it has: .*, spec, starts_at$"
    ):
        assert_scheduled(store, "report", colour="red")
    if there:
        assert_enqueued(queue, raw=b"1", state="pending", worker_id=None)


@pytest.mark.parametrize("count", [True, False, -1, "1", 1.0])
def test_a_count_is_a_number(store: Store, count: Any) -> None:
    queue = store.queue("mail")
    queue.enqueue(1)
    for asserting in (assert_enqueued, assert_dead):
        with pytest.raises(InvalidOption, match="count must be an int of at least 0, or None, not"):
            asserting(queue, count=count)


def test_what_is_no_queue_is_a_mistake_of_the_test(store: Store) -> None:
    name = type(store).__name__
    for where, told in ((store, f"a {name}"), ("mail", "'mail'"), (None, "a NoneType")):
        mistaken: Any = where
        message = rf"a queue or an outbox is needed, such as store.queue\('mail'\), not {told}$"
        for asserting in (assert_enqueued, assert_not_enqueued, assert_dead):
            with pytest.raises(TypeError, match=message):
                asserting(mistaken, 1)
    kind: Any = type(store.queue("mail"))
    with pytest.raises(TypeError, match="not the class "):
        assert_not_enqueued(kind)
    no_store: Any = store.queue("mail")
    with pytest.raises(TypeError, match="a store is needed, not a "):
        assert_scheduled(no_store, "report")


@pytest.mark.parametrize(
    ("error", "told"), [(ValueError, "the class ValueError"), (ValueError("x"), "a ValueError")]
)
def test_an_error_is_looked_for_by_its_text(store: Store, error: Any, told: str) -> None:
    with pytest.raises(TypeError, match=f"a part of the error's text, a str, not {told}$"):
        assert_dead(store.queue("mail"), error=error)


def test_a_failed_assertion_shows_ten_jobs_and_how_many_there_are_more(store: Store) -> None:
    queue = store.queue("mail")
    queue.enqueue_many(range(10))
    with pytest.raises(AssertionError) as failed:
        assert_enqueued(queue, "x")
    assert (str(failed.value).count(" Job("), "more" in str(failed.value)) == (10, False)
    queue.enqueue_many(range(15))
    with pytest.raises(AssertionError, match="found 25;") as failed:
        assert_enqueued(queue, count=3)
    assert str(failed.value).count(" Job(") == 10
    assert str(failed.value).endswith("\n  and 15 more")


def test_a_failed_assertion_tells_that_the_job_is_dead(store: Store) -> None:
    queue = store.queue("mail")
    queue.enqueue_many(["one", "two"], priority=3)
    drain(store, "mail", lambda handle: handle.fail("no such customer"))
    with pytest.raises(AssertionError) as failed:
        assert_enqueued(queue, "one", priority=3, state="pending")
    message = str(failed.value)
    assert "found 0; there is: nothing\nbut among the dead letters there is:\n  'one' " in message
    assert "no such customer" in message
    assert "'two'" not in message
    for payload, priority in (("three", 3), ("one", 4)):
        with pytest.raises(AssertionError) as failed:
            assert_enqueued(queue, payload, priority=priority)
        assert "dead" not in str(failed.value)
    queue.enqueue("one")
    with pytest.raises(AssertionError) as failed:
        assert_not_enqueued(queue, "one")
    assert "dead" not in str(failed.value)


def test_what_no_claim_has_met_yet_is_live_and_a_drain_makes_it_dead(
    engine: EngineHarness, store: Store
) -> None:
    queue = store.queue("mail", max_attempts=1)
    queue.enqueue("expired", expires=5)
    queue.enqueue("used up", priority=1)
    assert [handle.payload for handle in queue.claim("one that dies")] == ["used up"]
    engine.advance(301)
    stats = queue.stats()
    assert (stats.ready, stats.delayed, stats.retrying, stats.running, stats.dead) == (0,) * 5
    assert_enqueued(queue, count=2)
    with pytest.raises(AssertionError, match=r"but among the live jobs .*:\n  'expired' Job"):
        assert_dead(queue, "expired", error="expired")
    assert len(drain(store, "mail", lambda _: None)) == 0
    assert_not_enqueued(queue)
    assert_dead(queue, "expired", error="expired")
    assert_dead(queue, "used up", error="max attempts exceeded")


def test_dead_letters_are_found_by_a_part_of_their_error(store: Store) -> None:
    queue = store.queue("mail")
    queue.enqueue("x")
    drain(store, "mail", lambda handle: handle.fail("no such customer"))
    assert_dead(queue, "x", error="customer", count=1, attempts=1)
    with pytest.raises(AssertionError, match="with error='smtp'"):
        assert_dead(queue, error="smtp")


def test_a_schedule_is_found_by_name(store: Store) -> None:
    store.schedule("report", "@every 1h", "mail", {"kind": "daily"}, priority=2)
    assert assert_scheduled(store, "report", {"kind": "daily"}, priority=2).queue == "mail"
    with pytest.raises(AssertionError, match="no schedule 'backup'; there is: 'report'"):
        assert_scheduled(store, "backup")
    with pytest.raises(AssertionError, match="not as expected"):
        assert_scheduled(store, "report", spec="@every 2h")


# Draining


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


# Stepping time


def test_what_is_due_now_is_fired(engine: EngineHarness, store: Store) -> None:
    store.schedule("report", "@every 1h", "mail", 1)
    assert fire_due(store) == 0
    engine.advance(3600)
    assert fire_due(store) == 1
    assert_enqueued(store.queue("mail"), schedule="report", count=1)


def test_time_is_stepped_from_boundary_to_boundary() -> None:
    clock = ManualClock()
    begin = clock.now()
    with MemoryStore(clock=clock) as store:
        store.schedule("fast", "@every 1m", "fast", 1, catch_up="latest")
        store.schedule("slow", "@every 1h", "slow", 1)
        store.schedule("not now", "@every 1m", "slow", 1)
        store.pause("not now")
        assert fire_due(store, by=timedelta(hours=2)) == 122
        assert clock.now() == begin + timedelta(hours=2)
        for job in assert_enqueued(store.queue("fast"), count=120):
            assert job.enqueued_at == job.scheduled_for
        assert fire_due(store, by=30) == 0
        assert clock.now() == begin + timedelta(hours=2, seconds=30)


def test_without_schedules_time_is_stepped_all_the_same() -> None:
    clock = ManualClock()
    end = clock.now() + timedelta(hours=1)
    with MemoryStore(clock=clock) as store:
        assert fire_due(store, by=3600) == 0
    assert clock.now() == end


def test_a_clock_that_goes_on_by_itself_is_not_stepped() -> None:
    with MemoryStore() as store, pytest.raises(TypeError, match="ManualClock"):
        fire_due(store, by=1)
