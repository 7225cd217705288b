"""A runner whose time to stop is over answers for nothing any more."""

from __future__ import annotations

import threading

from alkstore.memory import MemoryStore


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
