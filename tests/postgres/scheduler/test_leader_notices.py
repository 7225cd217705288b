"""The leader notices changes: at once with a wake, soon without one (section 7)."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from datetime import datetime, timedelta
from functools import partial

from alkstore_postgres.store import PostgresStore
from tests.support.leading import Leading, late
from tests.support.schedules import ScheduleTable, grid
from tests.support.timing import in_time
from tests.support.waiting import wait_until

SECOND = timedelta(seconds=1)


def test_a_change_from_elsewhere_is_noticed_with_its_wake(
    open_store: Callable[..., PostgresStore], store: PostgresStore, table: ScheduleTable
) -> None:
    """Field cases B12 to B14: registered, changed, resumed, from another store."""
    other = open_store()
    numbers = itertools.count()

    def change() -> float:
        number = next(numbers)
        new, far = f"new{number}", f"far{number}"
        store.schedule(far, "@every 6h", far, 1)
        for name in (new, far):
            made = other.schedule(name, "@every 1s", name, 1)
            wait_until(partial(table.fired, name))
            assert table.fired(name)[0] == made.next_fire_at
            other.pause(name)
        first = resumed_in_time(other, table, new)
        wait_until(lambda: first in table.fired(new))
        return max(late(store, new) + late(store, far)).total_seconds()

    with Leading(store):
        wait_until(lambda: store._parts.hub.state == "listening")
        in_time(change, 0.5)


def resumed_in_time(store: PostgresStore, table: ScheduleTable, name: str) -> datetime:
    """Resume *name* just before a boundary, which is then not passed over; return that."""
    ahead = 0.2
    while True:
        first = table.shift(name, ahead)
        assert store.resume(name)
        if table.value(name, "next_fire_at") == first or first in table.fired(name):
            return first
        store.pause(name)
        ahead *= 2


def test_a_change_without_a_wake_is_noticed_by_the_next_renewal(
    store: PostgresStore, table: ScheduleTable
) -> None:
    """Field case B13: no notification, and the sleep has an upper bound."""
    store.schedule("s", "@every 6h", "s", 1)

    def edit() -> float:
        seen = table.jobs()
        table.shift("s", 0)
        wait_until(lambda: table.jobs() == seen + 1)
        return late(store, "s")[0].total_seconds()

    with Leading(store):
        in_time(edit, 2.5)


def test_an_interval_that_is_edited_by_hand_is_followed(
    store: PostgresStore, table: ScheduleTable
) -> None:
    """Field case B13: nothing remembers the old interval."""
    store.schedule("s", "@every 1h", "s", 1)
    with Leading(store):
        table.set("s", "spec", "'@every 1s'")
        first = table.shift("s", 0.1)
        wait_until(lambda: len(table.fired("s")) >= 3)
    fired = table.fired("s")
    assert fired == grid(first, SECOND, len(fired))


def test_registering_again_under_a_leader_never_moves_the_boundaries(
    open_store: Callable[..., PostgresStore], store: PostgresStore, table: ScheduleTable
) -> None:
    """Field case B09: an interval that is longer than the time between deploys."""
    other = open_store()
    first = store.schedule("s", "@every 2s", "s", 1).next_fire_at
    assert first is not None
    with Leading(store):
        while not table.fired("s"):
            other.schedule("s", "@every 2s", "s", 1)
    fired = table.fired("s")
    assert fired == grid(first, 2 * SECOND, len(fired))
