"""Section 7: registering a schedule again."""

from __future__ import annotations

from datetime import timedelta, timezone
from typing import Any

import pytest

from alkstore.testing.contract.base import Contract, claim, live, schedule, spanning
from alkstore.testing.harness import EngineHarness
from alkstore.traits import Store
from alkstore.values import Schedule

OPTIONS: dict[str, Any] = {"priority": 5, "expires": 60, "max_attempts": 9, "catch_up": "latest"}
OTHERS: dict[str, Any] = {"priority": -2, "expires": 7, "max_attempts": 1, "catch_up": "all"}


def stamps(of: Schedule) -> list[object]:
    """Return the options of a schedule."""
    return [getattr(of, name) for name in OPTIONS]


class RegisteringAgainContract(Contract):
    """An application that registers at every boot pushes no schedule away."""

    @pytest.mark.parametrize("spelling", ["@every 1h", "@every 60m", " @every 3600s "])
    def test_registering_again_keeps_the_next_boundary(
        self, engine: EngineHarness, store: Store, other: Store, spelling: str
    ) -> None:
        first = store.schedule("s", "@every 1h", "q", 1)
        engine.advance(1800)
        again = other.schedule("s", spelling, "another", {"new": True}, priority=2)
        assert again.next_fire_at == first.next_fire_at
        assert (again.queue, again.payload, again.priority) == ("another", {"new": True}, 2)
        assert again.spec == spelling
        engine.advance(1801)
        assert engine.tick(store) == 1
        job = live(store, claim(store.queue("another")).id)
        assert (job.payload, job.scheduled_for) == ({"new": True}, first.next_fire_at)

    def test_registering_again_keeps_a_boundary_that_was_missed(
        self, engine: EngineHarness, store: Store
    ) -> None:
        first = store.schedule("s", "@every 1h", "q", 1)
        engine.advance(3700)
        assert store.schedule("s", "@every 1h", "q", 1).next_fire_at == first.next_fire_at
        assert engine.tick(store) == 1

    @pytest.mark.parametrize(
        "changed", [{"catch_up": "latest"}, {"priority": 5}, {"expires": 60}, {"max_attempts": 9}],
        ids=str,
    )  # fmt: skip
    def test_an_option_that_is_not_the_grid_moves_no_boundary(
        self, engine: EngineHarness, store: Store, changed: Any
    ) -> None:
        first = store.schedule("s", "@every 1h", "q", 1)
        engine.advance(3700)
        assert (
            store.schedule("s", "@every 1h", "q", 1, **changed).next_fire_at == first.next_fire_at
        )
        assert engine.tick(store) == 1

    @pytest.mark.parametrize(
        "changed",
        [{}, {"catch_up": "latest"}, {"priority": 5}, {"expires": 60}, {"max_attempts": 9}],
        ids=str,
    )
    def test_what_has_fired_never_fires_again_whatever_is_registered_anew(
        self, engine: EngineHarness, store: Store, changed: Any
    ) -> None:
        store.schedule("s", "@every 1h", "q", 1)
        engine.advance(3601)
        assert engine.tick(store) == 1
        before = schedule(store, "s")
        for queue, payload in (("q", 1), ("another", 2)):
            again = store.schedule("s", "@every 1h", queue, payload, **changed)
            assert again.next_fire_at == before.next_fire_at
            assert again.last_fire_at == before.last_fire_at
            assert engine.tick(store) == 0

    @pytest.mark.parametrize("spec", ["@every 1h", "@every 2h"])
    @pytest.mark.parametrize(
        "options",
        [OTHERS, *({**OPTIONS, name: OTHERS[name]} for name in OPTIONS)],
        ids=["all", *OPTIONS],
    )
    def test_an_option_is_what_was_registered_last(
        self, store: Store, spec: str, options: Any
    ) -> None:
        store.schedule("s", "@every 1h", "q", 1, **OPTIONS)
        again = store.schedule("s", spec, "q", 1, **options)
        fresh = store.schedule("fresh", spec, "q", 1, **options)
        assert stamps(again) == stamps(fresh)
        assert stamps(schedule(store, "s")) == stamps(fresh)

    @pytest.mark.parametrize("dropped", OPTIONS)
    def test_an_option_that_is_not_given_any_more_is_dropped(
        self, store: Store, dropped: str
    ) -> None:
        store.schedule("s", "@every 1h", "q", 1, **OPTIONS)
        options: Any = {name: value for name, value in OPTIONS.items() if name != dropped}
        again = store.schedule("s", "@every 1h", "q", 1, **options)
        fresh = store.schedule("fresh", "@every 1h", "q", 1, **options)
        assert stamps(again) == stamps(fresh)
        assert stamps(schedule(store, "s")) == stamps(fresh)

    def test_the_same_anchor_in_another_zone_is_the_same(
        self, engine: EngineHarness, store: Store
    ) -> None:
        anchor = engine.now() + timedelta(minutes=5)
        store.schedule("s", "@every 1h", "q", 1, starts_at=anchor)
        engine.advance(600)
        elsewhere = anchor.astimezone(timezone(timedelta(hours=5, minutes=30)))
        again = store.schedule("s", "@every 1h", "q", 1, starts_at=elsewhere)
        assert (again.next_fire_at, again.starts_at) == (anchor, anchor)
        assert engine.tick(store) == 1

    @pytest.mark.parametrize("spec", ["@every 1m", "@every 2m"])
    def test_registering_again_forgets_nothing_that_has_happened(
        self, engine: EngineHarness, store: Store, spec: str
    ) -> None:
        store.schedule("s", "@every 1m", "q", 1)
        engine.advance(100 * 60 + 1)
        assert engine.tick(store) == 64
        before = schedule(store, "s")
        assert (before.skipped, before.last_fire_at is None) == (36, False)
        again = store.schedule("s", spec, "q", 2)
        assert (again.skipped, again.last_fire_at) == (36, before.last_fire_at)

    def test_a_changed_spec_starts_a_new_grid_from_now(
        self, engine: EngineHarness, store: Store
    ) -> None:
        store.schedule("s", "@every 1d", "q", 1)
        engine.advance(86_500)
        with spanning(engine) as span:
            changed = store.schedule("s", "@every 10m", "q", 1)
        assert changed.next_fire_at in span + 600
        assert engine.tick(store) == 0

    def test_a_changed_anchor_starts_a_new_grid(self, engine: EngineHarness, store: Store) -> None:
        anchor = engine.now() + timedelta(hours=1)
        store.schedule("s", "@every 1h", "q", 1, starts_at=anchor)
        later = anchor + timedelta(minutes=7)
        assert store.schedule("s", "@every 1h", "q", 1, starts_at=later).next_fire_at == later
        with spanning(engine) as span:
            without = store.schedule("s", "@every 1h", "q", 1)
        assert without.next_fire_at in span + 3600

    @pytest.mark.parametrize("spec", ["@every 1h", "@every 60m", "@every 2h"])
    def test_registering_a_paused_schedule_again_leaves_it_paused(
        self, engine: EngineHarness, store: Store, spec: str
    ) -> None:
        store.schedule("s", "@every 1h", "q", 1)
        store.pause("s")
        assert store.schedule("s", spec, "q", 2).paused
        engine.advance(9000)
        assert engine.tick(store) == 0
