"""A runner whose time to stop is over answers for nothing any more."""

from __future__ import annotations

import threading

import pytest

from alkstore._typing import override
from alkstore.memory import MemoryStore
from alkstore.runners.worker import WorkerRunner
from alkstore.stop_token import Parker
from tests.support.waiting import wait_until


def test_a_runner_that_gave_its_handlers_up_is_stopped() -> None:
    begun, go_on = threading.Event(), threading.Event()

    def handler(_: object) -> None:
        begun.set()
        go_on.wait(60)

    with MemoryStore() as store:
        store.queue("mail").enqueue(1)
        runner = store.start_worker("mail", handler)
        assert begun.wait(10)
        assert runner.state == "working"
        assert not runner.stop(0)
        health = runner.health()
        assert (runner.state, health.state, health.reason) == (
            "stopped",
            "stopped",
            "it was stopped",
        )
        assert health.details["running"] == 1, "nobody can end the handler itself"
        assert not runner.join(0), "its thread is there"
        assert store.queue("mail").stats().ready == 1, "its claim was released"
        go_on.set()
        assert runner.join(10)
        assert runner.health().details["running"] == 0


def test_nothing_is_settled_before_all_that_a_stop_without_time_gives_up_is_known(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A batch of what waits would be under way when what runs is to be released."""
    order: list[str] = []
    go_on = threading.Event()

    class Settler(Parker):
        @override
        def unpark(self) -> None:
            order.append("settle")
            super().unpark()

    with MemoryStore() as store:
        queue = store.queue("mail")
        worker = WorkerRunner(queue, lambda _job: go_on.wait(60))
        monkeypatch.setattr(worker, "_ahead", lambda: 4)
        claims = worker._claims
        claims.settler = Settler()
        close, give_up = claims.close, claims.give_up

        def closing() -> None:
            order.clear()
            close()

        def giving_up() -> int:
            order.append("give up")
            return give_up()

        monkeypatch.setattr(claims, "close", closing)
        monkeypatch.setattr(claims, "give_up", giving_up)
        queue.enqueue_many(range(5))
        worker.start()
        wait_until(lambda: queue.stats().running == 5)
        wait_until(lambda: worker.health().details["running"] == 1)
        assert not worker.stop(0)
        assert order[:2] == ["give up", "settle"]
        assert queue.stats().ready == 5
        go_on.set()
        assert worker.join(10)
