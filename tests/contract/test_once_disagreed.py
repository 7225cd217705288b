"""What the engines once disagreed on, found by the random walk and pinned for both."""

from __future__ import annotations

from alkstore import Store
from tests.contract.conftest import Harness


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
