"""Section 4: options, and how they resolve."""

from __future__ import annotations

from collections import UserDict
from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from typing import Any, cast

import pytest

from alkstore.errors import InvalidOption
from alkstore.testing.contract.base import claim, live, refused, spanning
from alkstore.testing.contract.durations import DURATIONS, NO_DURATIONS, DurationsContract
from alkstore.testing.contract.entering import ENQUEUES, Enter, EnteringContract
from alkstore.testing.contract.own_codecs import is_empty
from alkstore.testing.harness import EngineHarness
from alkstore.traits import Queue, Store

PRIORITIES: list[Any] = [-32_769, 32_768, 1.0, "1", True]
BUDGETS: list[Any] = [0, -1, 2**31, 1.0, "3", True]
MOMENTS: list[Any] = [datetime(2030, 1, 1), "2030-01-01", 0, 1.5]  # noqa: DTZ001 - refused

ENQUEUE = [
    *({"delay": value} for value in DURATIONS),
    *({"expires": value} for value in NO_DURATIONS),
    *({"priority": value} for value in PRIORITIES),
    *({"max_attempts": value} for value in BUDGETS),
    *({"run_at": value} for value in MOMENTS),
    {"delay": 1, "run_at": datetime(2030, 1, 1, tzinfo=timezone.utc)},
    {"delay": 0, "run_at": datetime(2030, 1, 1, tzinfo=timezone.utc)},
    {"delay": 60, "expires": 60},
    {"colour": "red"},
    {"visibility_timeout": 5},
]
HANDLE = [
    *({"visibility_timeout": value} for value in NO_DURATIONS),
    *({"base_backoff": value} for value in NO_DURATIONS),
    *({"max_attempts": value} for value in BUDGETS),
    {"colour": "red"},
    {"priority": 1},
]
SCHEDULE = [
    *({"expires": value} for value in NO_DURATIONS),
    *({"priority": value} for value in PRIORITIES),
    *({"max_attempts": value} for value in BUDGETS),
    *({"starts_at": value} for value in MOMENTS),
    *({"catch_up": value} for value in ("some", "", 1, True, "ALL")),
    {"delay": 5},
    {"base_backoff": 5},
]


COLLECTIONS: dict[str, tuple[str, Callable[[Queue, Any], object]]] = {
    "enqueue_many": ("payloads", lambda queue, values: queue.enqueue_many(values)),
    "ack_many": ("handles", lambda queue, values: queue.ack_many(values)),
    "heartbeat_many": ("handles", lambda queue, values: queue.heartbeat_many(values)),
    "requeue": ("ids", lambda queue, values: queue.requeue(values)),
    "purge": ("ids", lambda queue, values: queue.purge(values)),
}
"""Calls that take many of something: the argument's name, and the call."""

NO_COLLECTIONS: list[Any] = [
    *("abc", "", b"\x01", b"", bytearray(b"1"), memoryview(b"1")),
    *({1: "mail"}, {}, UserDict({1: 2}), 1),
]


class OptionsContract(DurationsContract, EnteringContract):
    """Options are resolved once; what is unknown or impossible is refused and leaves no trace."""

    @pytest.mark.parametrize("enter", ENQUEUES.values(), ids=ENQUEUES)
    def test_impossible_enqueue_options_are_refused(self, store: Store, enter: Enter) -> None:
        for options in ENQUEUE:
            with refused(InvalidOption, options):
                enter(store, options)
        assert is_empty(store)

    def test_impossible_options_of_a_queue_handle_are_refused(self, store: Store) -> None:
        for options in cast("list[Any]", HANDLE):
            with refused(InvalidOption, options):
                store.queue("mail", **options)
            with refused(InvalidOption, options):
                store.start_worker("mail", lambda _: None, **options)

    def test_impossible_options_of_a_schedule_are_refused(self, store: Store) -> None:
        for options in cast("list[Any]", SCHEDULE):
            with refused(InvalidOption, options):
                store.schedule("s", "@every 1h", "mail", 1, **options)
        assert is_empty(store)

    @pytest.mark.parametrize(("name", "enter"), COLLECTIONS.values(), ids=COLLECTIONS)
    def test_text_bytes_and_mappings_are_no_collections_of_items(
        self, store: Store, name: str, enter: Callable[[Queue, Any], object]
    ) -> None:
        for values in NO_COLLECTIONS:
            with pytest.raises(InvalidOption, match=f"^{name} must be iterable, a list .* given"):
                enter(store.queue("mail"), values)
        assert is_empty(store)

    def test_a_job_without_options_has_the_defaults(
        self, engine: EngineHarness, store: Store, queue: Queue
    ) -> None:
        with spanning(engine) as span:
            job = live(store, queue.enqueue(1))
        assert (job.priority, job.expires_at, job.attempts, job.max_attempts) == (0, None, 0, 3)
        assert job.visibility_timeout == timedelta(seconds=300)
        assert job.base_backoff == timedelta(seconds=60)
        assert job.run_at == job.enqueued_at
        assert job.enqueued_at in span
        assert (job.worker_id, job.claim_expires_at) == (None, None)
        assert (job.schedule, job.scheduled_for) == (None, None)
        assert (job.queue, job.state) == ("mail", "pending")

    @pytest.mark.parametrize("delay", [90, 0.25, timedelta(hours=1), 0])
    def test_a_delay_counts_from_the_enqueue(
        self, engine: EngineHarness, store: Store, queue: Queue, delay: Any
    ) -> None:
        with spanning(engine) as span:
            job = live(store, queue.enqueue(1, delay=delay))
        assert job.run_at in span + delay
        assert job.enqueued_at in span

    def test_run_at_is_stored_as_it_is(self, store: Store, queue: Queue) -> None:
        east = timezone(timedelta(hours=5, minutes=30))
        moment = datetime(2031, 5, 6, 7, 8, 9, 123_456, tzinfo=east)
        job = live(store, queue.enqueue(1, run_at=moment))
        assert job.run_at == moment
        assert job.run_at.utcoffset() == timedelta(0)

    @pytest.mark.parametrize("expires", [90, 0.25, timedelta(hours=1)])
    def test_expires_counts_from_the_enqueue(
        self, engine: EngineHarness, store: Store, queue: Queue, expires: Any
    ) -> None:
        with spanning(engine) as span:
            job = live(store, queue.enqueue(1, expires=expires, delay=0.125))
        assert job.expires_at in span + expires

    @pytest.mark.parametrize("priority", [-32_768, -1, 0, 32_767])
    def test_a_priority_is_stamped(self, store: Store, queue: Queue, priority: int) -> None:
        assert live(store, queue.enqueue(1, priority=priority)).priority == priority

    def test_an_option_that_is_none_counts_as_not_given(self, store: Store, queue: Queue) -> None:
        nothing: Any = {"delay": None, "run_at": None, "expires": None, "max_attempts": None}
        job = live(store, queue.enqueue(1, **nothing))
        assert (job.expires_at, job.max_attempts) == (None, 3)

    def test_the_stamps_of_the_handle_are_on_the_row_and_any_claimer_obeys_them(
        self, engine: EngineHarness, store: Store, other: Store
    ) -> None:
        job = store.queue(
            "mail", visibility_timeout=7, max_attempts=2, base_backoff=timedelta(seconds=11)
        ).enqueue(1)
        elsewhere = other.queue("mail", visibility_timeout=900, max_attempts=9, base_backoff=900)
        with spanning(engine) as span:
            handle = claim(elsewhere)
        assert (handle.visibility_timeout, handle.max_attempts) == (7, 2)
        assert live(store, job).claim_expires_at in span + 7
        with spanning(engine) as span:
            assert handle.retry("first")
        assert live(store, job).run_at in span + 11
        engine.advance(11)
        assert claim(elsewhere).retry("second")
        (letter,) = other.queue("mail").dead()
        assert (letter.id, letter.error) == (job, "second")
        assert (letter.visibility_timeout, letter.base_backoff) == (
            timedelta(seconds=7),
            timedelta(seconds=11),
        )

    def test_max_attempts_of_an_enqueue_goes_before_that_of_the_queue(self, store: Store) -> None:
        queue = store.queue("mail", max_attempts=7)
        assert live(store, queue.enqueue(1)).max_attempts == 7
        assert live(store, queue.enqueue(1, max_attempts=2)).max_attempts == 2

    def test_the_stamps_of_an_outbox_are_fixed(self, store: Store) -> None:
        outbox = store.outbox("mail")
        for message, budget in ((outbox.enqueue(1), 5), (outbox.enqueue(1, max_attempts=2), 2)):
            job = live(store, message)
            assert job.max_attempts == budget
            assert job.visibility_timeout == timedelta(seconds=60)
            assert job.base_backoff == timedelta(seconds=5)

    def test_the_retry_curve_doubles_up_to_six_hours(
        self, engine: EngineHarness, store: Store
    ) -> None:
        queue = store.queue("mail", base_backoff=60, max_attempts=12)
        job = queue.enqueue(1)
        for gap in [60, 120, 240, 480, 960, 1920, 3840, 7680, 15_360, 21_600, 21_600]:
            handle = claim(queue)
            with spanning(engine) as span:
                assert handle.retry("again")
            assert live(store, job).run_at in span + gap
            engine.advance(gap)
