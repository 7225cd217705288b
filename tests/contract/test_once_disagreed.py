"""What the engines once disagreed on, found by the random walk and pinned for both."""

from __future__ import annotations

from typing import Any

import pytest

from alkstore import Store
from alkstore.memory.clock import LAST
from tests.contract.conftest import Harness
from tests.support.memory_harness import MemoryHarness
from tests.support.schedules import ScheduleTable
from tests.support.walk.damage import Damage


def damage(engine: Harness, name: str, done: Damage) -> None:
    """Write into the row of a schedule by hand."""
    if isinstance(engine, MemoryHarness):
        done.in_memory(name, engine._data)
    else:
        table = ScheduleTable(engine._connection, engine.schema)
        table.unprotect()
        done.in_postgres(name, table)


def stored(engine: Harness, name: str, column: str) -> Any:
    """Return what stands in the row of a schedule."""
    if isinstance(engine, MemoryHarness):
        return getattr(engine._data.schedules[name], column)
    return ScheduleTable(engine._connection, engine.schema).value(name, column)


def test_the_jobs_of_one_boundary_are_stored_in_the_order_of_the_schedules_names(
    engine: Harness, store: Store
) -> None:
    # A quote behind each name would put "a!" before "a".
    names = ["a", "a!", 'a"b', "a\\", "ab", "é"]
    for name in reversed(names):
        store.schedule(name, "@every 10s", "q", None)
    engine.advance(10)
    assert engine.tick(store) == len(names)
    fired = store.queue("q").claim("w", len(names))
    assert [handle.schedule for handle in sorted(fired, key=lambda handle: handle.id)] == names


@pytest.mark.parametrize(
    ("done", "mended"),
    [
        (Damage("skipped", None, "NULL"), 0),
        (Damage("skipped", -7, "-7"), 0),
        (Damage("last_fire_at", LAST, "'infinity'"), None),
    ],
    ids=["no count", "a count below 0", "never"],
)
def test_registering_exactly_as_before_mends_what_does_not_keep_it_from_firing(
    engine: Harness, store: Store, done: Damage, mended: object
) -> None:
    before = store.schedule("s", "@every 10s", "q", None)
    damage(engine, "s", done)
    assert store.schedule("s", "@every 10s", "q", None) == before
    assert stored(engine, "s", done.column) == mended


def test_a_count_of_skipped_boundaries_below_0_is_shown_as_0(engine: Harness, store: Store) -> None:
    store.schedule("s", "@every 10s", "q", None)
    damage(engine, "s", Damage("skipped", -7, "-7"))
    shown = store.get_schedule("s")
    assert shown is not None
    assert shown.skipped == 0
