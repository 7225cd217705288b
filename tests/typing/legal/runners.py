"""Uses of runners that every type checker must accept. Checked, never run."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, Literal

from typing_extensions import assert_type

from alkstore import Handler, JobHandle, Queue, Runner, RunnerHealth, Store
from alkstore.runners import (
    OutboxRunner,
    SchedulerRunner,
    StartedRunners,
    Supervisor,
    WorkerRunner,
)

State = Literal["starting", "leading", "standby", "working", "backing-off", "stopped"]


class Mailer:
    """Any object that can be called with a handle is a handler."""

    def __call__(self, handle: JobHandle, /) -> bool:
        """Work."""
        return handle.ack()


def handlers() -> list[Handler]:
    """Functions, objects, and what takes anything."""
    return [print, Mailer(), lambda handle: handle.ack()]


def starting(store: Store, handler: Handler) -> None:
    """Each kind gives a runner."""
    assert_type(store.start_scheduler(), Runner)
    assert_type(store.start_worker("mail", handler), Runner)
    assert_type(store.start_worker("mail", Mailer(), concurrency=3), Runner)
    assert_type(store.start_worker("mail", print, 3, visibility_timeout=60), Runner)
    assert_type(store.start_outbox("events", handler), Runner)
    assert_type(store.start_outbox("events", Mailer(), concurrency=2), Runner)


def handling(runner: Runner) -> None:
    """It is looked at, and stopped."""
    assert_type(runner.name, str)
    assert_type(runner.state, State)
    assert_type(runner.last_error, BaseException | None)
    assert_type(runner.health(), RunnerHealth)
    assert_type(runner.stop(), bool)
    assert_type(runner.stop(timeout=timedelta(seconds=5)), bool)
    assert_type(runner.join(), bool)
    assert_type(runner.join(0.5), bool)


def how_it_does(health: RunnerHealth) -> None:
    """A value for probes."""
    assert_type(health.healthy, bool)
    assert_type(health.state, State)
    assert_type(health.reason, str | None)
    assert_type(health.last_good_turn, float | None)
    assert_type(health.last_error, BaseException | None)
    assert_type(health.details, dict[str, Any])


def for_engines(queue: Queue, scheduler: SchedulerRunner) -> list[Runner]:
    """An engine builds the threads of its stores from these."""
    started = StartedRunners(lambda: scheduler)
    worker = WorkerRunner(queue, print, concurrency=2, worker_id="w")
    outbox = OutboxRunner(queue, print, "events", concurrency=2, worker_id="w")
    return [scheduler, worker, outbox, started.scheduler()]


def the_runners_of_a_store(started: StartedRunners, queue: Queue) -> None:
    """They are started and stopped together."""
    assert_type(started.scheduler(), SchedulerRunner)
    assert_type(started.worker(queue, print, 2), WorkerRunner)
    assert_type(started.outbox("events", queue, print, 2), OutboxRunner)
    started.stop()
    started.after_fork()


def what_each_runner_of_the_core_has(runner: WorkerRunner, supervisor: Supervisor) -> None:
    """More than the trait says, for those who start and stop many."""
    assert_type(runner.start(), WorkerRunner)
    assert_type(supervisor.start(), Supervisor)
    assert_type(supervisor.inherited, bool)
    assert_type(supervisor.ending, bool)
    supervisor.ask_to_end(5.0)
    assert_type(supervisor.wind_up(5.0), bool)
    same: Runner = supervisor
    same.stop()
