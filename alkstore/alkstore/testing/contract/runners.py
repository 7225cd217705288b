"""Section 11: runner threads, and the end of a store."""

from __future__ import annotations

import logging
import threading
from datetime import timedelta
from functools import partial

import pytest

from alkstore.errors import InvalidOption, StoreClosed
from alkstore.testing.contract.base import LIMIT, PROMPT, Span, claim, live, wait_until
from alkstore.testing.contract.leaders_lease import held_up_at
from alkstore.testing.contract.supervision import SupervisionContract
from alkstore.testing.contract.unfinished_work import UnfinishedWorkContract
from alkstore.testing.contract.wakes import hears, take_what_was_said
from alkstore.testing.harness import EngineHarness
from alkstore.traits import JobHandle, Queue, Store


def _has_failed(store: Store, job_id: int, times: int) -> bool:
    """Return whether a job waits for another attempt after so many."""
    job = store.get_job(job_id)
    return job is not None and (job.state, job.attempts) == ("pending", times)


def _is_closed_quietly(engine: EngineHarness, caplog: pytest.LogCaptureFixture) -> bool:
    """Close a store whose runners are under way; return whether nothing was said above INFO."""
    closing = engine.open()
    closing.schedule("s", "@every 30d", "q", 1)
    scheduler = closing.start_scheduler()
    idle = [closing.start_worker("mail", print), closing.start_outbox("mail", print)]
    wait_until(lambda: scheduler.state in {"leading", "standby"})
    wait_until(lambda: [runner.state for runner in idle] == ["working", "working"])
    caplog.clear()
    closing.close()
    return not [
        record
        for record in caplog.records
        if record.name.startswith("alkstore") and record.levelno > logging.INFO
    ]


class RunnersContract(SupervisionContract, UnfinishedWorkContract):
    """Runners are supervised, tell how they do, and end with their store."""

    def test_a_runner_is_starting_until_its_first_good_turn(self, store: Store) -> None:
        with held_up_at("leading", logging.INFO) as (pause, _):
            scheduler = store.start_scheduler()
            assert pause.reached.wait(LIMIT)
            assert (scheduler.state, scheduler.health().last_good_turn) == ("starting", None)
        wait_until(lambda: scheduler.state == "leading")
        idle = [store.start_worker("mail", print), store.start_outbox("mail", print)]
        for runner in idle:
            wait_until(lambda runner=runner: runner.state == "working")  # type: ignore[misc]
        for runner in (scheduler, *idle):
            assert runner.health().healthy
            assert runner.stop(LIMIT)
            assert (runner.state, runner.health().healthy) == ("stopped", False)

    def test_a_worker_acknowledges_what_its_handler_returns_from(
        self, store: Store, other: Store, queue: Queue
    ) -> None:
        seen: list[object] = []
        runner = store.start_worker("mail", lambda handle: seen.append(handle.payload))
        jobs = other.queue("mail").enqueue_many([1, 2, 3])
        wait_until(lambda: queue.size() == 0)
        assert sorted(seen, key=str) == [1, 2, 3]
        assert queue.dead() == []
        assert all(store.get_job(job) is None for job in jobs)
        assert runner.health().healthy
        assert runner.stop(LIMIT)
        assert runner.state == "stopped"

    def test_a_handler_that_raises_is_a_failed_attempt_on_the_curve(
        self, engine: EngineHarness, store: Store, queue: Queue
    ) -> None:
        def handler(handle: JobHandle) -> None:
            raise OSError(f"failure {handle.attempt}")

        runner = store.start_worker("mail", handler)
        begin = engine.now()
        job = queue.enqueue("x")
        for failures, gap in enumerate((60, 120), start=1):
            wait_until(partial(_has_failed, store, job, failures))
            assert live(store, job).run_at in Span(begin, engine.now()) + gap
            begin = engine.now() + timedelta(seconds=gap)
            engine.advance(gap)
        wait_until(queue.dead)
        assert [letter.error for letter in queue.dead()] == ["failure 3"]
        assert runner.last_error is None
        assert runner.stop(LIMIT)

    def test_a_handler_may_settle_its_job_itself(self, store: Store, queue: Queue) -> None:
        runner = store.start_worker("mail", lambda handle: handle.fail("no"))
        queue.enqueue(1)
        wait_until(queue.dead)
        assert [letter.error for letter in queue.dead()] == ["no"]
        assert runner.stop(LIMIT)

    def test_the_options_of_a_worker_are_those_of_its_queue(self, store: Store) -> None:
        with pytest.raises(InvalidOption):
            store.start_worker("mail", print, concurrency=0)
        with pytest.raises(InvalidOption):
            store.start_outbox("mail", print, concurrency=1001)
        with pytest.raises(InvalidOption):
            store.start_worker("mail", "no function")  # type: ignore[arg-type]

    def test_so_many_handlers_work_at_once(self, store: Store, queue: Queue) -> None:
        meeting = threading.Barrier(3)
        met: list[bool] = []

        def handler(_: JobHandle) -> None:
            meeting.wait(LIMIT)
            met.append(True)

        runner = store.start_worker("mail", handler, concurrency=3)
        queue.enqueue_many(range(3))
        wait_until(lambda: len(met) == 3)
        wait_until(lambda: queue.size() == 0)
        assert runner.stop(LIMIT)
        outbox = store.outbox("mail")
        for number in range(3):
            outbox.enqueue(number)
        relay = store.start_outbox("mail", handler, concurrency=3)
        wait_until(lambda: len(met) == 6)
        wait_until(lambda: outbox.peek() == [])
        assert relay.stop(LIMIT)

    def test_a_worker_sends_heartbeats_while_its_handler_works(
        self, engine: EngineHarness, store: Store, queue: Queue
    ) -> None:
        began, go_on = threading.Event(), threading.Event()

        def handler(_: JobHandle) -> None:
            began.set()
            go_on.wait(LIMIT)

        job = store.queue("mail", visibility_timeout=1).enqueue(1)
        runner = store.start_worker("mail", handler)
        assert began.wait(LIMIT)
        first = live(store, job).claim_expires_at
        assert first is not None
        engine.advance(0.5)
        wait_until(lambda: (live(store, job).claim_expires_at or first) > first)
        go_on.set()
        wait_until(lambda: queue.size() == 0)
        assert runner.stop(LIMIT)

    def test_a_stop_lets_it_finish_what_it_holds(self, store: Store, queue: Queue) -> None:
        began, go_on = threading.Event(), threading.Event()

        def handler(_: JobHandle) -> None:
            began.set()
            go_on.wait(LIMIT)

        runner = store.start_worker("mail", handler)
        queue.enqueue(1)
        assert began.wait(LIMIT)
        assert not runner.join(0)
        threading.Timer(0.05, go_on.set).start()
        assert runner.stop(LIMIT)
        assert runner.join(0)
        assert (queue.size(), queue.dead()) == (0, [])

    def test_a_stop_whose_time_is_up_releases_what_it_holds(
        self, store: Store, queue: Queue
    ) -> None:
        began, go_on = threading.Event(), threading.Event()
        handles: list[JobHandle] = []

        def handler(handle: JobHandle) -> None:
            handles.append(handle)
            began.set()
            go_on.wait(LIMIT)

        runner = store.start_worker("mail", handler)
        job = queue.enqueue(1)
        assert began.wait(LIMIT)
        assert not runner.stop(0.05)
        wait_until(lambda: live(store, job).state == "pending")
        assert live(store, job).attempts == 0
        # The handler, which goes on, can see it.
        wait_until(lambda: handles[0].lost)
        assert not handles[0].settled
        assert not handles[0].ack()
        go_on.set()
        assert runner.join(LIMIT)
        assert claim(queue).id == job

    def test_who_waits_hears_of_the_jobs_that_a_stop_releases(
        self, store: Store, other: Store, queue: Queue
    ) -> None:
        began, go_on = threading.Barrier(4), threading.Event()

        def handler(_: JobHandle) -> None:
            began.wait(LIMIT)
            go_on.wait(LIMIT)

        jobs = queue.enqueue_many(range(3))
        runner = store.start_worker("mail", handler, concurrency=3)
        began.wait(LIMIT)
        with other.listen("mail", "mark") as listener:
            take_what_was_said(store, listener)
            assert not runner.stop(0.05)
            assert hears(listener, "mail")
            wait_until(lambda: all(live(store, job).state == "pending" for job in jobs))
        go_on.set()
        assert runner.join(LIMIT)

    def test_starting_the_scheduler_twice_gives_the_same_runner(self, store: Store) -> None:
        runner = store.start_scheduler()
        assert store.start_scheduler() is runner
        assert runner.stop(LIMIT)

    def test_one_scheduler_leads_and_the_others_stand_by_and_take_over(
        self, engine: EngineHarness, store: Store, other: Store
    ) -> None:
        store.schedule("s", "@every 1h", "q", 1)
        first = store.start_scheduler()
        wait_until(lambda: first.state == "leading")
        second = other.start_scheduler()
        wait_until(lambda: second.state == "standby")
        assert first.stop(LIMIT)
        wait_until(lambda: second.state == "leading", PROMPT)
        engine.advance(3601)
        wait_until(lambda: other.queue("q").size() == 1)
        assert second.health().healthy
        assert second.stop(LIMIT)

    def test_closing_a_store_stops_its_runners(self, engine: EngineHarness, store: Store) -> None:
        closing = engine.open()
        runners = [
            closing.start_scheduler(),
            closing.start_worker("mail", print),
            closing.start_outbox("mail", print),
        ]
        closing.close()
        closing.close()
        assert [runner.state for runner in runners] == ["stopped"] * 3
        assert store.queue("mail").size() == 0

    def test_closing_a_store_is_quiet(
        self, engine: EngineHarness, caplog: pytest.LogCaptureFixture
    ) -> None:
        # On a busy machine somebody may say that something takes long, but not most times.
        assert sum(_is_closed_quietly(engine, caplog) for _ in range(5)) >= 3, caplog.text

    def test_a_closed_store_is_closed_for_every_call(self, engine: EngineHarness) -> None:
        closing = engine.open()
        queue = closing.queue("mail")
        with closing as itself:
            assert itself is closing
        for call in (
            lambda: queue.enqueue(1),
            lambda: queue.claim("worker"),
            lambda: closing.get_job(1),
            lambda: closing.try_lock("door", 1),
            closing.schedules,
            lambda: closing.notify("news"),
            closing.start_scheduler,
            lambda: closing.start_worker("mail", print),
        ):
            with pytest.raises(StoreClosed):
                call()
