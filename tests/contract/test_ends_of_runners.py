"""Whoever is stopped together with the store ends as it should, and quietly."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from alkstore import StopToken, Store, StoreClosed
from alkstore._typing import override
from tests.support.waiting import wait_until


class LastLook(StopToken):
    """Is cancelled, and closes the store, right after somebody has looked for the first time."""

    def __init__(self, store: Store) -> None:
        super().__init__()
        self._store = store
        self._looked = False

    @property
    @override
    def cancelled(self) -> bool:
        was = super().cancelled
        if not self._looked:
            self._looked = True
            self.cancel()
            self._store.close()
        return was


def test_a_stop_and_the_end_of_the_store_between_two_looks_fail_no_outbox(store: Store) -> None:
    delivered: list[object] = []
    store.outbox("o").run("w", delivered.append, LastLook(store))
    assert delivered == []
    with pytest.raises(StoreClosed):
        store.schedules()


def test_a_stop_and_the_end_of_the_store_between_two_looks_fail_no_iteration(store: Store) -> None:
    assert list(store.queue("q").jobs("w", stop=LastLook(store))) == []
    with pytest.raises(StoreClosed):
        store.schedules()


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
