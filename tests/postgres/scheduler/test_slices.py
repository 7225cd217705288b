"""A large tick works in slices: their number, their statements, their size (section 7)."""

from __future__ import annotations

from collections import Counter as Counted
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from alkstore.errors import DatabaseError
from alkstore_postgres.scheduler import tick as tick_module
from alkstore_postgres.scheduler.slice_size import FIRST_ROWS, SliceSize
from alkstore_postgres.scheduler.tick import Ticker
from alkstore_postgres.store import PostgresStore
from tests.support.cursors import Run, around_statements
from tests.support.ear import Ear
from tests.support.schedules import ScheduleTable, many


class Counter:
    """Counts the statements that go to the server."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.count = 0

        def counting(run: Run) -> Run:
            def running(*args: Any, **options: Any) -> None:
                self.count += 1
                run(*args, **options)

            return running

        around_statements(patch, counting)


@pytest.mark.parametrize(
    ("count", "most"), [(1, 1), (FIRST_ROWS - 1, 1), (10_000, 10_000 // FIRST_ROWS + 1)]
)
def test_any_number_of_due_schedules_is_a_few_statements_a_slice(
    table: ScheduleTable,
    ticker: Ticker,
    monkeypatch: pytest.MonkeyPatch,
    count: int,
    most: int,
) -> None:
    """Field case B35: every one once, in a bounded number of slices."""
    many(table, count)
    statements = Counter(monkeypatch)
    monkeypatch.setattr(
        SliceSize, "took", lambda *_, **__: None
    )  # as on a server of middling speed
    assert ticker.tick(None).fired == count
    assert statements.count <= 7 * most
    ledger = table.ledger()
    assert len(ledger) == count
    assert set(ledger.values()) == {1}


def test_slices_go_on_where_the_one_before_ended_and_leave_nobody_out(
    table: ScheduleTable, ticker: Ticker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Many share a boundary, some have many fires, one is damaged: all in one tick."""
    monkeypatch.setattr(ticker._size, "rows", 7)
    monkeypatch.setattr(SliceSize, "took", lambda *_, **__: None)
    monkeypatch.setattr(tick_module, "MOST_FIRES", 100)
    many(table, 40)
    table.run(
        "UPDATE {schedules} SET spec = '@every 60s', next_fire_at = now() - interval '2 h'"
        " WHERE name LIKE 's1%%'"
    )
    table.run("UPDATE {schedules} SET spec = 'banana' WHERE name IN ('s2', 's12')")
    done = ticker.tick(None)
    assert (done.fired, done.quarantined) == (28 + 10 * 64, 2)
    assert set(table.ledger().values()) == {1}
    assert ticker.tick(None).progress is False


def test_a_slow_server_gets_smaller_slices(
    open_store: Callable[..., PostgresStore], table: ScheduleTable, schema: str
) -> None:
    """Field case B120: 10 ms an enqueue, a lease of 2 s, and every slice ends in time."""
    parts = open_store()._parts
    ticker = Ticker(parts.database, parts.leases, parts.sender.channel, ttl=2.0)
    many(table, 150)
    table.run(
        f'CREATE FUNCTION "{schema}".slow() RETURNS trigger LANGUAGE plpgsql AS'
        " $$ BEGIN PERFORM pg_sleep(0.01); RETURN NEW; END $$"
    )
    table.run(
        "CREATE TRIGGER slow BEFORE INSERT ON {jobs}"
        f' FOR EACH ROW EXECUTE FUNCTION "{schema}".slow()'
    )
    fired = 0
    failures: list[str | None] = []
    while fired < 150:
        try:
            fired += ticker.slice(None).fired
        except DatabaseError as error:
            failures.append(error.sqlstate)
    assert set(failures) == {"57014"}
    assert len(failures) < 10
    assert set(table.ledger().values()) == {1}


def test_a_server_far_away_gets_no_smaller_slices(
    table: ScheduleTable, ticker: Ticker, ear: Ear, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What each statement costs on its way is not the rows': few slices, few wakes."""
    spent = [0.0]

    def far(run: Run) -> Run:
        def running(*args: Any, **options: Any) -> None:
            spent[0] += 0.04  # on the ticker's clock, whatever this machine takes
            run(*args, **options)

        return running

    many(table, 2_500)
    around_statements(monkeypatch, far)
    monkeypatch.setattr(tick_module, "time", SimpleNamespace(monotonic=lambda: spent[0]))
    ear.heard()
    assert ticker.tick(None).fired == 2_500
    assert max(Counted(ear.heard()).values()) <= 2_500 // FIRST_ROWS
