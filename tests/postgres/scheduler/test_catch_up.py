"""The tick catches up: which missed boundaries fire, and what is told of the others (section 7)."""

from __future__ import annotations

import logging
from datetime import timedelta
from typing import Any

import pytest

from alkstore_postgres.scheduler import slices
from alkstore_postgres.scheduler.tick import Ticker
from alkstore_postgres.store import PostgresStore
from tests.support.schedules import ScheduleTable, grid, many

MINUTE = timedelta(minutes=1)


@pytest.mark.parametrize(
    ("catch_up", "missed", "fires", "skipped"),
    [
        ("all", 1, 1, 0), ("all", 10, 10, 0), ("all", 30, 30, 0), ("all", 64, 64, 0),
        ("all", 65, 64, 1), ("all", 10_000, 64, 9_936),
        ("latest", 1, 1, 0), ("latest", 10, 1, 9), ("latest", 10_000, 1, 9_999),
    ],
)  # fmt: skip
def test_missed_boundaries_are_made_good_up_to_the_cap(
    *,
    store: PostgresStore,
    table: ScheduleTable,
    ticker: Ticker,
    caplog: pytest.LogCaptureFixture,
    catch_up: Any,
    missed: int,
    fires: int,
    skipped: int,
) -> None:
    """Field cases B18 and B42: the count, the order, the phase and what is told."""
    store.schedule("s", "@every 60s", "q", 1, catch_up=catch_up)
    first = table.shift("s", -60 * (missed - 1) - 30)
    with caplog.at_level(logging.WARNING, "alkstore"):
        done = ticker.tick(None)
    assert (done.fired, done.skipped) == (fires, skipped)
    boundaries = grid(first, MINUTE, missed)
    assert table.fired("s") == (boundaries[:64] if catch_up == "all" else boundaries[-1:])
    schedule = store.get_schedule("s")
    assert schedule is not None
    assert schedule.next_fire_at == first + missed * MINUTE
    assert schedule.skipped == skipped
    assert (f"skipped {skipped} boundaries" in caplog.text) == (skipped > 0)
    assert ticker.tick(None).fired == 0, "what was skipped never fires later"


def test_the_count_of_skipped_boundaries_adds_up(
    store: PostgresStore, table: ScheduleTable, ticker: Ticker
) -> None:
    store.schedule("s", "@every 60s", "q", 1, catch_up="latest")
    for _ in range(3):
        table.shift("s", -150)
        ticker.tick(None)
    schedule = store.get_schedule("s")
    assert schedule is not None
    assert schedule.skipped == 6


def test_a_large_tick_logs_a_bounded_number_of_lines_about_skipped_boundaries(
    table: ScheduleTable, ticker: Ticker, caplog: pytest.LogCaptureFixture
) -> None:
    many(table, 400, seconds=7_300)
    table.run("UPDATE {schedules} SET catch_up = 'latest'")
    with caplog.at_level(logging.WARNING, "alkstore"):
        assert ticker.tick(None).skipped == 800
    assert len(caplog.records) == slices._LOGGED + 1
    assert "380 further" in caplog.text
