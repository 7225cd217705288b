"""A runner that is stopped together with its store ends as it should, and quietly."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from alkstore import Store
from tests.support.waiting import wait_until


@pytest.mark.parametrize("kind", ["worker", "relay"])
def test_a_store_that_closes_as_its_runner_begins_to_wait_fails_nothing(
    store: Store, kind: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    queue = type(store.queue("q"))
    claim_wait = queue.claim_wait

    def closing(self: Any, *arguments: Any, **options: Any) -> Any:
        store.close()  # it waits for no runner that asks for it in a thread of its own
        return claim_wait(self, *arguments, **options)

    monkeypatch.setattr(queue, "claim_wait", closing)
    with caplog.at_level(logging.INFO):
        if kind == "worker":
            runner = store.start_worker("q", lambda _: None)
        else:
            runner = store.start_outbox("o", lambda _: None)
        wait_until(lambda: runner.state == "stopped")
    assert runner.last_error is None
    assert runner.health().reason == "it was stopped"
    assert [record for record in caplog.records if record.levelno >= logging.WARNING] == []
