"""What is no schedule is refused before the database is touched (contract section 7)."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timezone
from typing import Any

import pytest

from alkstore import (
    EncodeError,
    InvalidName,
    InvalidOption,
    InvalidSpec,
    PayloadTooLarge,
    ReservedName,
)
from alkstore.errors import AlkstoreError
from alkstore_postgres.store import PostgresStore
from tests.support.cursors import Run, around_statements


def counted_round_trips(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """Return the statements of the engine from now on; none of them is sent."""
    round_trips: list[bytes] = []

    def counted(_run: Run) -> Run:
        return lambda _cursor, query, *_args, **_options: round_trips.append(query)

    around_statements(monkeypatch, counted)
    return round_trips


@pytest.mark.parametrize(
    ("arguments", "options", "error"),
    [
        (("", "@every 1s", "q", 1), {}, InvalidName),
        (("__alkstore_x", "@every 1s", "q", 1), {}, ReservedName),
        ((b"s", "@every 1s", "q", 1), {}, InvalidName),
        (("s", "* * * * *", "q", 1), {}, InvalidSpec),
        (("s", None, "q", 1), {}, InvalidSpec),
        (("s", "@every 1s", "", 1), {}, InvalidName),
        (("s", "@every 1s", "__alkstore_outbox:x", 1), {}, ReservedName),
        (("s", "@every 1s", "q", float("nan")), {}, EncodeError),
        (("s", "@every 1s", "q", "x" * 2_000_000), {}, PayloadTooLarge),
        (("s", "@every 1s", "q", 1), {"catch_up": "none"}, InvalidOption),
        (("s", "@every 1s", "q", 1), {"starts_at": datetime(2030, 1, 1)}, InvalidOption),  # noqa: DTZ001
        (("s", "@every 1s", "q", 1), {"starts_at": "2030-01-01"}, InvalidOption),
        (
            ("s", "@every 1s", "q", 1),
            {"starts_at": datetime.max.replace(tzinfo=timezone.utc)},
            InvalidOption,
        ),
        (("s", "@every 1s", "q", 1), {"expires": 0}, InvalidOption),
        (("s", "@every 1s", "q", 1), {"max_attempts": 0}, InvalidOption),
        (("s", "@every 1s", "q", 1), {"priority": 40_000}, InvalidOption),
        (("s", "@every 1s", "q", 1), {"delay": 1}, InvalidOption),
    ],
)
def test_a_refusal_comes_before_any_round_trip(
    store: PostgresStore,
    monkeypatch: pytest.MonkeyPatch,
    arguments: tuple[Any, ...],
    options: dict[str, Any],
    error: type[AlkstoreError],
) -> None:
    round_trips = counted_round_trips(monkeypatch)
    with pytest.raises(error) as refusal:
        store.schedule(*arguments, **options)
    assert isinstance(refusal.value, ValueError)
    assert round_trips == []


def test_name_spec_and_queue_are_checked_before_the_payload_is_encoded(
    open_store: Callable[..., PostgresStore],
) -> None:
    class Counting:
        calls = 0

        def encode(self, value: Any, /) -> bytes:
            del value
            Counting.calls += 1
            return b"x"

        def decode(self, raw: bytes, /) -> Any:
            return raw

    store = open_store(codec=Counting())
    for name, spec, queue in (("", "@every 1s", "q"), ("s", "no", "q"), ("s", "@every 1s", "")):
        with pytest.raises(ValueError, match="invalid"):
            store.schedule(name, spec, queue, 1)
    assert Counting.calls == 0
    store.schedule("s", "@every 1s", "q", 1)
    assert Counting.calls == 1


@pytest.mark.parametrize("call", ["unschedule", "get_schedule", "pause", "resume", "run_now"])
def test_every_call_checks_the_name_first(
    store: PostgresStore, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    round_trips = counted_round_trips(monkeypatch)
    for name, error in (("", InvalidName), ("__alkstore_s", ReservedName), (7, InvalidName)):
        with pytest.raises(error):
            getattr(store, call)(name)
    assert round_trips == []
