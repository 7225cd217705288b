"""The tick's wakes: one per fired queue, heard with the commit, never in the way (section 7)."""

from __future__ import annotations

from typing import Any

import psycopg
import pytest

from alkstore_postgres.scheduler.tick import Ticker
from alkstore_postgres.store import PostgresStore
from tests.support.ear import Ear
from tests.support.schedules import ScheduleTable


def test_a_tick_with_fires_sends_one_wake_per_queue_and_one_without_sends_none(
    store: PostgresStore, table: ScheduleTable, ticker: Ticker, ear: Ear
) -> None:
    for name, queue in (("a", "q1"), ("b", "q2"), ("c", "q1"), ("d", "q3")):
        store.schedule(name, "@every 60s", queue, 1)
    for name in ("a", "b", "c"):
        table.shift(name, -130)
    ear.heard()
    assert ticker.tick(None).fired == 9
    assert sorted(ear.heard()) == ["q1", "q2"]
    assert ticker.tick(None).fired == 0
    assert ear.heard() == []


def test_wakes_are_silent_before_the_commit_and_gone_after_a_rollback(
    store: PostgresStore,
    table: ScheduleTable,
    ticker: Ticker,
    ear: Ear,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    store.schedule("s", "@every 1h", "q", 1)
    table.shift("s", -1)
    finish = Ticker._finish
    ear.heard()
    silent: list[list[str]] = []

    def finishing(self: Ticker, *args: Any, **options: Any) -> Any:
        outlook = finish(self, *args, **options)
        silent.append(ear.heard())  # the wake is sent, the transaction still open
        if len(silent) == 1:
            raise KeyError("roll back")
        return outlook

    monkeypatch.setattr(Ticker, "_finish", finishing)
    with pytest.raises(KeyError):
        ticker.tick(None)
    assert ear.heard() == []
    assert table.jobs() == 0
    assert ticker.tick(None).fired == 1
    assert ear.heard() == ["q"]
    assert silent == [[], []]


class _FullQueueError(psycopg.errors.ProgramLimitExceeded):
    sqlstate = "54000"


def test_a_full_notification_queue_never_fails_a_tick(
    store: PostgresStore,
    table: ScheduleTable,
    ticker: Ticker,
    ear: Ear,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The server tells it at the commit; the slice is then repeated without wakes."""
    store.schedule("s", "@every 1h", "q", 1)
    table.shift("s", -1)
    finish = Ticker._finish

    def finishing(self: Ticker, session: Any, made: Any, *, wakes: bool) -> Any:
        outlook = finish(self, session, made, wakes=wakes)
        if wakes:
            raise _FullQueueError("too many notifications in the NOTIFY queue")
        return outlook

    monkeypatch.setattr(Ticker, "_finish", finishing)
    ear.heard()
    assert ticker.tick(None).fired == 1
    assert ear.heard() == []
    assert table.jobs() == 1


def test_a_wake_that_the_server_refuses_never_fails_a_tick(
    store: PostgresStore, table: ScheduleTable, ticker: Ticker, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.schedule("s", "@every 1h", "q", 1)
    table.shift("s", -1)
    monkeypatch.setattr(ticker, "_wakes_and_outlook", b"SELECT 1 / 0")
    assert ticker.tick(None).fired == 1
    schedule = store.get_schedule("s")
    assert schedule is not None
    assert schedule.quarantine is None
