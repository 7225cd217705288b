"""The leader notices changes: at once with a wake, soon without one (section 7)."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from functools import partial

from alkstore_postgres.store import PostgresStore
from tests.support.leading import Leading, late
from tests.support.schedules import ScheduleTable, grid
from tests.support.waiting import wait_until

SECOND = timedelta(seconds=1)


def test_a_change_from_elsewhere_is_noticed_with_its_wake(
    open_store: Callable[..., PostgresStore], store: PostgresStore, table: ScheduleTable
) -> None:
    """Field cases B12 to B14: registered, changed, resumed, from another store."""
    other = open_store()
    store.schedule("far", "@every 6h", "q", 1)
    with Leading(store):
        wait_until(lambda: store._parts.hub.state == "listening")
        for name, spec in (("a", "@every 1s"), ("far", "@every 1s")):
            made = other.schedule(name, spec, name, 1)
            wait_until(partial(table.fired, name))
            assert table.fired(name)[0] == made.next_fire_at
            other.pause(name)
        first = table.shift("a", 0.2)
        assert other.resume("a")
        wait_until(lambda: first in table.fired("a"))
    assert max(late(store, "a") + late(store, "far")) < timedelta(seconds=0.5)


def test_a_change_without_a_wake_is_noticed_by_the_next_renewal(
    store: PostgresStore, table: ScheduleTable
) -> None:
    """Field case B13: no notification, and the sleep has an upper bound."""
    store.schedule("s", "@every 6h", "s", 1)
    with Leading(store):
        table.shift("s", 0)
        wait_until(lambda: table.jobs() == 1)
    assert late(store, "s")[0] < timedelta(seconds=2.5)


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
    assert table.fired("s") == [first]
