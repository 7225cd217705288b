"""Section 11: a runner outlives what nobody expects."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from alkstore._typing import override
from alkstore.testing.contract.base import LIMIT, Contract, boundary, schedule, wait_until
from alkstore.testing.contract.leaders_lease import held_up_at
from alkstore.testing.harness import DamagesSchedules, EngineHarness
from alkstore.traits import JobHandle, Runner, Store


class _Trap(logging.Handler):
    """Raises *error* in whoever first tells of *about*; notes how *runner* does when it is told.

    Args:
        about: What is in a line that is logged while the runner works.
        error: What nobody expects there; ``None``: raise nothing.
        runner: Who is expected to fail.
    """

    def __init__(self, about: str, error: BaseException | None, runner: Runner) -> None:
        super().__init__(logging.WARNING)
        self._about = about
        self._error = error
        self._runner = runner
        self._told: list[tuple[BaseException | None, str]] = []

    @override
    def handle(self, record: logging.LogRecord) -> bool:
        error = self._error
        if error is not None and self._about in record.getMessage():
            self._error = None
            raise error
        if record.exc_info:
            self._told.append((record.exc_info[1], self._runner.state))
        return True

    def states(self, error: BaseException | None) -> list[str]:
        """Return the state of the runner at each line that was logged with *error*."""
        return [state for told, state in self._told if told is error]


@contextmanager
def trapped(runner: Runner, about: str = "", error: BaseException | None = None) -> Iterator[_Trap]:
    """Set a trap in the log of alkstore for the length of the block."""
    trap = _Trap(about, error, runner)
    logger = logging.getLogger("alkstore")
    logger.addHandler(trap)
    try:
        yield trap
    finally:
        logger.removeHandler(trap)


class OutOfLuck(BaseException):
    """What nobody expects; a log call that outlives a handler which fails lets it pass."""


def _fail(_: JobHandle) -> None:
    raise ValueError("an ordinary failure")


class SupervisionContract(Contract):
    """What is not expected is logged with its traceback and kept, and the runner starts again."""

    def test_a_scheduler_outlives_what_nobody_expects(
        self, engine: EngineHarness, store: Store, caplog: pytest.LogCaptureFixture
    ) -> None:
        store.schedule("cursed", "@every 1s", "q", 1)
        first = boundary(store, "cursed")
        runner = store.start_scheduler()
        wait_until(lambda: runner.state == "leading")
        error = OutOfLuck()
        with trapped(runner, "cursed", error) as trap:
            engine.advance(100)
            wait_until(lambda: trap.states(error))
            wait_until(lambda: runner.state == "leading")
        assert runner.last_error is error
        assert trap.states(error) == ["backing-off"]
        assert [record.exc_info[1] for record in caplog.records if record.exc_info] == [error]
        engine.advance(3)
        # Where the clock goes on by itself there may be some more.
        wait_until(lambda: store.queue("q").size() >= 67)
        assert runner.stop(LIMIT)
        after = schedule(store, "cursed")
        assert after.next_fire_at is not None
        boundaries = [job.scheduled_for for job in store.queue("q").claim("worker", 1000)]
        assert len(boundaries) == len(set(boundaries))
        assert after.skipped >= 36
        assert len(boundaries) + after.skipped == (after.next_fire_at - first).total_seconds()

    def test_the_health_of_a_leader_tells_what_is_late_and_what_cannot_be_fired(
        self, engine: EngineHarness, store: Store
    ) -> None:
        if not isinstance(engine, DamagesSchedules):
            pytest.skip("the harness has no damage_schedule")
        store.schedule("slow", "@every 1s", "q", 1)
        store.schedule("bad", "@every 1d", "q", 1)
        runner = store.start_scheduler()
        wait_until(lambda: runner.state == "leading")
        assert runner.health().details.keys().isdisjoint({"late", "quarantined"})
        engine.damage_schedule("bad")
        with held_up_at("slow", logging.WARNING) as (pause, _):
            engine.advance(100)
            assert pause.reached.wait(LIMIT)
            wait_until(lambda: "bad" in runner.health().details.get("quarantined", {}))
            engine.advance(600)
            wait_until(lambda: runner.health().details.get("late") == ["slow"])
            assert not runner.health().healthy
        wait_until(lambda: runner.health().healthy)
        assert runner.stop(LIMIT)

    def test_a_worker_outlives_what_nobody_expects(
        self, engine: EngineHarness, store: Store
    ) -> None:
        queue = store.queue("cursed")
        runner = store.start_worker("cursed", _fail)
        error = OutOfLuck()
        with trapped(runner, "cursed", error) as trap:
            job = queue.enqueue(1)
            wait_until(lambda: trap.states(error))
            assert trap.states(error) == ["backing-off"]
        assert runner.last_error is error
        # The attempt was given back or has lapsed; the next ones are ordinary failures.
        for _ in range(4):
            engine.advance(301)
            wait_until(lambda: queue.stats().ready == 0 and queue.stats().running == 0)
        wait_until(queue.dead)
        assert [(letter.id, letter.error) for letter in queue.dead()] == [
            (job, "an ordinary failure")
        ]
        wait_until(lambda: runner.state == "working")
        assert runner.health().healthy
        assert runner.stop(LIMIT)

    def test_a_relay_outlives_what_nobody_expects(self, store: Store, other: Store) -> None:
        exits = [KeyboardInterrupt(), SystemExit(3)]
        raised: list[BaseException] = []
        messages: list[int] = []

        def deliver(handle: JobHandle) -> None:
            if len(raised) < len(exits):
                raised.append(exits[len(raised)])
                raise raised[-1]
            messages.append(handle.id)

        runner = store.start_outbox("mail", deliver)
        with trapped(runner) as trap:
            message = other.outbox("mail").enqueue(1)
            wait_until(lambda: messages)
        assert messages == [message]
        assert [trap.states(one) for one in exits] == [["backing-off"]] * len(exits)
        assert runner.last_error is exits[-1]
        wait_until(lambda: runner.state == "working")
        wait_until(lambda: other.outbox("mail").stats().running == 0)
        assert runner.stop(LIMIT)
