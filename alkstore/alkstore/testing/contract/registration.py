"""Section 7: specs, and registering and managing schedules."""

from __future__ import annotations

import threading
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest

from alkstore.errors import EncodeError, InvalidName, InvalidSpec
from alkstore.testing.contract.base import (
    LIMIT,
    Background,
    boundary,
    refused,
    schedule,
    spanning,
)
from alkstore.testing.contract.pausing import PausingContract
from alkstore.testing.contract.registering_again import RegisteringAgainContract
from alkstore.testing.harness import EngineHarness
from alkstore.traits import Store

SPECS = {
    "@every 1s": 1,
    "@every 90s": 90,
    "@every 5m": 300,
    "@every 1h": 3600,
    "@every 2d": 172_800,
    "@every 36500d": 36_500 * 86_400,
    "@every 3153600000s": 36_500 * 86_400,
    "@every 007m": 420,
    "@every\t5s": 5,
    "@every \t  5s": 5,
    "  @every 5s\n": 5,
    "\r\n\t@every 5s \r\n": 5,
}

NO_SPACES = (
    "\v\f\x1c\x1d\x1e\x1f\x85\u00a0\u1680\u180e"
    "\u2000\u2003\u2009\u200b\u2028\u2029\u202f\u205f\u2060\u3000\ufeff"
)
"""What is a space, or looks like one, somewhere else, and is none in a spec."""

NO_SPECS: list[Any] = [
    "", "@every", "@every ", "@every5s", "@every 5", "@every s", "@every 0s", "@every 00m",
    "@every -5s", "@every +5s", "@every 1.5s", "@every 5e1s", "@every 1_0s", "@every 5 s",
    "@every 5ms", "@every 5w", "@every 5S", "@every 5M", "@EVERY 5s", "@Every 5s",
    "@every 1h30m", "@every 5s 5s", "@every 5s x", "x @every 5s", "@every\n5s", "@every 5s\0",
    *(f"@every 5s{space}" for space in NO_SPACES), *(f"{space}@every 5s" for space in NO_SPACES),
    *(f" {space}@every 5s{space} " for space in NO_SPACES),
    *(f"@every{space}5s" for space in NO_SPACES), *(f"@every {space}5s" for space in NO_SPACES),
    *(f"@every 5{space}s" for space in NO_SPACES), "@every \u0665s", "@every \uff15s",
    "@every 36501d", "@every 3153600001s", "@every " + "9" * 5000 + "s",
    "@daily", "@hourly", "* * * * *", "0 5 * * *", "every 5s", "5s", "P1D",
    None, 5, 5.0, b"@every 5s", timedelta(seconds=5), ["@every 5s"],
]  # fmt: skip


class RegistrationContract(RegisteringAgainContract, PausingContract):
    """A schedule is upserted by name, and a refusal leaves no trace."""

    def test_a_spec_of_the_grammar_is_accepted(self, store: Store) -> None:
        for spec, seconds in SPECS.items():
            made = store.schedule("s", spec, "q", 1)
            assert (made.spec, made.interval) == (spec, timedelta(seconds=seconds))

    def test_everything_else_is_no_spec_and_leaves_no_trace(self, store: Store) -> None:
        for spec in NO_SPECS:
            with refused(InvalidSpec, spec):
                store.schedule("s", spec, "q", 1)
        assert store.schedules() == []

    def test_a_refused_spec_is_told_what_is_allowed(self, store: Store) -> None:
        for spec in NO_SPECS:
            with pytest.raises(InvalidSpec) as refusal:
                store.schedule("s", spec, "q", 1)
            assert "@every <n><unit>" in str(refusal.value), spec

    def test_a_registration_returns_the_row_as_stored(
        self, engine: EngineHarness, store: Store, other: Store
    ) -> None:
        with spanning(engine) as span:
            made = store.schedule(
                "report", "@every 90s", "mail", {"to": "all"}, priority=-7, expires=30,
                max_attempts=4, catch_up="latest",
            )  # fmt: skip
        assert other.get_schedule("report") == made
        assert other.schedules() == [made]
        assert (made.name, made.spec, made.queue) == ("report", "@every 90s", "mail")
        assert (made.payload, made.raw) == ({"to": "all"}, b'{"to":"all"}')
        assert (made.priority, made.expires) == (-7, timedelta(seconds=30))
        assert (made.max_attempts, made.starts_at, made.catch_up) == (4, None, "latest")
        assert (made.last_fire_at, made.paused) == (None, False)
        assert (made.skipped, made.quarantine) == (0, None)
        assert made.next_fire_at in span + 90

    def test_without_options_it_has_the_defaults(self, store: Store) -> None:
        made = store.schedule("s", "@every 1h", "q", None)
        assert (made.priority, made.expires, made.max_attempts) == (0, None, None)
        assert (made.starts_at, made.catch_up) == (None, "all")

    def test_the_names_are_checked_first_then_the_spec_then_the_payload(self, store: Store) -> None:
        with pytest.raises(InvalidName):
            store.schedule("", "never", "", object())
        with pytest.raises((InvalidName, InvalidSpec)):
            store.schedule("s", "never", "", object())
        with pytest.raises(InvalidSpec):
            store.schedule("s", "never", "q", object())
        with pytest.raises(EncodeError):
            store.schedule("s", "@every 1h", "q", object())
        assert store.schedules() == []

    def test_a_refused_change_leaves_the_schedule_as_it_was(self, store: Store) -> None:
        made = store.schedule("s", "@every 1h", "q", 1)
        for arguments in (("never", "q", 2), ("@every 2h", "", 2), ("@every 2h", "q", object())):
            with pytest.raises((InvalidName, InvalidSpec, EncodeError)):
                store.schedule("s", *arguments)
        assert store.schedules() == [made]

    def test_an_anchor_is_the_first_boundary(self, engine: EngineHarness, store: Store) -> None:
        anchor = engine.now() + timedelta(hours=5, microseconds=1)
        made = store.schedule("s", "@every 1d", "q", 1, starts_at=anchor)
        assert made.next_fire_at == made.starts_at == anchor
        engine.advance(5 * 3600 + 1)
        assert engine.tick(store) == 1
        assert boundary(store, "s") == anchor + timedelta(days=1)

    def test_an_anchor_in_the_past_fixes_the_grid_and_fires_nothing_old(
        self, engine: EngineHarness, store: Store
    ) -> None:
        anchor = datetime(2001, 2, 3, 4, 5, 6, 789, tzinfo=timezone.utc)
        with spanning(engine) as span:
            following = store.schedule("s", "@every 7d", "q", 1, starts_at=anchor).next_fire_at
        assert following is not None
        assert (following - anchor) % timedelta(days=7) == timedelta(0)
        assert span.first < following <= span.last + timedelta(days=7)
        assert engine.tick(store) == 0

    def test_schedules_are_listed_by_name(self, store: Store) -> None:
        for name in ("b", "a", "c"):
            store.schedule(name, "@every 1h", "q", 1)
        assert [found.name for found in store.schedules()] == ["a", "b", "c"]

    def test_unschedule_tells_whether_there_was_one_and_leaves_its_jobs(
        self, engine: EngineHarness, store: Store, other: Store
    ) -> None:
        store.schedule("s", "@every 1h", "q", 1)
        engine.advance(3601)
        assert engine.tick(store) == 1
        assert other.unschedule("s")
        assert not store.unschedule("s")
        assert (store.schedules(), store.get_schedule("s")) == ([], None)
        engine.advance(3601)
        assert engine.tick(store) == 0
        assert store.queue("q").size() == 1

    @pytest.mark.usefixtures("turns")
    def test_one_store_serves_many_threads_with_schedules(
        self, engine: EngineHarness, store: Store
    ) -> None:
        begin = threading.Barrier(4)

        def work(number: int) -> None:
            own = f"s{number}"
            begin.wait(LIMIT)
            for _ in range(5):
                assert store.schedule(own, "@every 1h", "q", number).payload == number
                assert store.schedule("shared", "@every 1h", "q", "shared").name == "shared"
                assert store.pause(own)
                assert schedule(store, own).paused
                assert store.resume(own)
                assert own in [found.name for found in store.schedules()]
                assert store.run_now(own)
                assert store.unschedule(own)
            store.schedule(own, "@every 1h", "q", number)

        threads = [Background(lambda number=each: work(number)) for each in range(4)]  # type: ignore[misc]
        for thread in threads:
            thread.result()
        assert [found.name for found in store.schedules()] == ["s0", "s1", "s2", "s3", "shared"]
        engine.advance(3601)
        assert engine.tick(store) == 5
        assert store.queue("q").size() == 25
