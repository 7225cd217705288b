"""The assertions that `alkstore.testing` gives to tests of applications, with either engine."""

from __future__ import annotations

from datetime import timedelta
from typing import Any
from unittest import mock

import pytest

from alkstore import InvalidOption, Job, Store
from alkstore.testing import (
    EngineHarness,
    assert_dead,
    assert_enqueued,
    assert_not_enqueued,
    assert_scheduled,
    drain,
)


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
    with pytest.raises(AssertionError, match="expected 2 live jobs in 'mail', found 1"):
        assert_enqueued(queue, count=2)
    with pytest.raises(AssertionError, match="expected 0 live jobs in"):
        assert_not_enqueued(queue)
    with pytest.raises(AssertionError, match="there is: nothing"):
        assert_enqueued(store.queue("another"))


@pytest.mark.parametrize("seconds", [300, 300.0, timedelta(minutes=5)])
def test_a_duration_is_told_in_seconds_or_as_a_timedelta(store: Store, seconds: Any) -> None:
    queue = store.queue("mail")
    queue.enqueue(1)
    assert_enqueued(queue, visibility_timeout=seconds)
    with pytest.raises(AssertionError):
        assert_enqueued(queue, visibility_timeout=seconds + seconds)
    store.schedule("report", "@every 5m", "mail", 1)
    assert_scheduled(store, "report", interval=seconds, expires=None)


def test_a_failed_assertion_tells_of_one_that_differs_in_one_thing_only(store: Store) -> None:
    queue = store.queue("mail")
    queue.enqueue("ann", priority=2)
    queue.enqueue("bob", priority=1)
    told = r"\none differs in its priority only: 1, not 2$"
    with pytest.raises(AssertionError, match=told):
        assert_enqueued(queue, "bob", priority=2, attempts=0, count=1)
    told = r"\none differs in its payload only: 'ann', not 'eve'$"
    with pytest.raises(AssertionError, match=told):
        assert_enqueued(queue, "eve", priority=2)
    for criteria in ({"priority": 7}, {"priority": 7, "attempts": 7}):
        with pytest.raises(AssertionError) as failed:
            assert_enqueued(queue, **criteria)
        assert "differs" not in str(failed.value)
    drain(store, "mail", lambda handle: handle.fail("no"))
    with pytest.raises(AssertionError, match=r"differs in its base_backoff only: .*60.*, not 61$"):
        assert_dead(queue, "bob", base_backoff=61)
    store.schedule("report", "@every 1h", "mail", 1)
    with pytest.raises(AssertionError, match=r"differs in its spec only: '@every 1h', not '1h'$"):
        assert_scheduled(store, "report", queue="mail", spec="1h")


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


def test_a_failed_assertion_shows_those_first_that_it_is_about(store: Store) -> None:
    queue = store.queue("mail")
    queue.enqueue_many([{"n": number} for number in range(12)])
    with pytest.raises(AssertionError, match=r"found 1; there is:\n  \{'n': 11\} "):
        assert_not_enqueued(queue, {"n": 11})


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


def test_a_job_behind_ten_thousand_others_is_not_overlooked(store: Store) -> None:
    queue = store.queue("mail")
    queue.enqueue_many(range(10_000))
    queue.enqueue("the last", priority=-1)
    beyond = "found 0 among the 10,000 that were looked at; there may be more"
    with pytest.raises(AssertionError, match=beyond):
        assert_not_enqueued(queue, "the last")


def test_where_there_may_be_more_than_is_looked_at_nothing_is_guessed(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("alkstore.testing.assertions.MOST", 20)
    queue = store.queue("mail")
    queue.enqueue_many(range(20))
    queue.enqueue("the last", priority=-1)
    for asserting in (assert_not_enqueued, assert_enqueued):
        with pytest.raises(AssertionError, match="found 0 among the 20 that were looked at"):
            asserting(queue, "the last")
    with pytest.raises(AssertionError, match=r"expected 1 live job in 'mail' .* found 1 among"):
        assert_enqueued(queue, 5, count=1)
    # What is found decides here, however many there are.
    assert len(assert_enqueued(queue, 5)) == 1
    with pytest.raises(
        AssertionError, match=r"expected 0 live jobs in 'mail' .* found 1; there is"
    ):
        assert_not_enqueued(queue, 5)
    assert queue.cancel(assert_enqueued(queue, 5)[0].id)
    assert queue.cancel(assert_enqueued(queue, 6)[0].id)
    assert_not_enqueued(queue, 5)
    assert_enqueued(queue, "the last", count=1)


def test_where_there_may_be_more_dead_letters_than_are_looked_at_nothing_is_guessed(
    engine: EngineHarness, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("alkstore.testing.assertions.MOST", 20)
    queue = store.queue("mail")
    queue.enqueue_many(range(20), expires=60)
    engine.advance(61)
    assert queue.claim("worker") == []
    assert len(assert_dead(queue, 5, error="expired")) == 1
    with pytest.raises(AssertionError, match=r"expected at least 1 dead letter .* found 0 among"):
        assert_dead(queue, "another")
    with pytest.raises(AssertionError, match=r"expected 20 dead letters .* found 20 among"):
        assert_dead(queue, count=20)
    assert queue.purge([letter.id for letter in assert_dead(queue, 5)]) == 1
    assert_dead(queue, count=19)


@pytest.mark.parametrize("seconds", [float("nan"), float("inf"), 10**30])
def test_what_no_duration_can_be_is_a_field_that_differs(store: Store, seconds: float) -> None:
    queue = store.queue("mail")
    queue.enqueue(1)
    with pytest.raises(AssertionError, match="expected at least 1 live job"):
        assert_enqueued(queue, visibility_timeout=seconds)


def test_a_failed_assertion_compares_no_job_with_each_other_one(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    compared: list[Job] = []
    same = Job.__eq__

    def counted(one: Job, other: object) -> bool:
        compared.append(one)
        return same(one, other)

    store.queue("mail").enqueue_many(range(300))
    monkeypatch.setattr(Job, "__eq__", counted)
    with pytest.raises(AssertionError, match="found 300"):
        assert_not_enqueued(store.queue("mail"))
    assert len(compared) <= 300
