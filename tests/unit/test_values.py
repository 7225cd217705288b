"""Value types: frozen, whole, and silent about payloads."""

from __future__ import annotations

import copy
import dataclasses
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest

from alkstore import (
    DeadJob,
    DecodeError,
    Job,
    JsonCodec,
    QueueStats,
    RunnerHealth,
    Schedule,
    Wake,
)
from alkstore.values import Payload

NOW = datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=timezone.utc)
SECRET = "hunter2"
RAW = JsonCodec().encode({"password": SECRET})


class CountingCodec(JsonCodec):
    """Counts how often it decodes; it stands for an expensive one."""

    def __init__(self) -> None:
        super().__init__()
        self.decoded = 0

    def read(self, raw: bytes) -> Any:
        self.decoded += 1
        return self.decode(raw)


def job(stored: Payload, **changes: Any) -> Job:
    values: dict[str, Any] = {
        "id": 7,
        "queue": "mail",
        "state": "processing",
        "priority": 3,
        "run_at": NOW,
        "expires_at": None,
        "attempts": 1,
        "max_attempts": 3,
        "visibility_timeout": timedelta(seconds=300),
        "base_backoff": timedelta(seconds=60),
        "worker_id": "w1",
        "claim_expires_at": NOW + timedelta(seconds=300),
        "schedule": None,
        "scheduled_for": None,
        "enqueued_at": NOW,
    }
    return Job(stored=stored, **{**values, **changes})


def dead_job(stored: Payload) -> DeadJob:
    return DeadJob(
        stored=stored,
        id=7,
        queue="mail",
        priority=3,
        attempts=3,
        max_attempts=3,
        visibility_timeout=timedelta(seconds=300),
        base_backoff=timedelta(seconds=60),
        error="expired",
        schedule="nightly",
        scheduled_for=NOW,
        enqueued_at=NOW,
        died_at=NOW,
    )


def schedule(stored: Payload) -> Schedule:
    return Schedule(
        stored=stored,
        name="nightly",
        spec="@every 1d",
        interval=timedelta(days=1),
        queue="mail",
        priority=0,
        expires=None,
        max_attempts=None,
        starts_at=None,
        catch_up="all",
        next_fire_at=NOW,
        last_fire_at=None,
        paused=False,
        skipped=0,
        quarantine=None,
    )


def with_payload(codec: CountingCodec, raw: bytes = RAW) -> list[Job | DeadJob | Schedule]:
    stored = Payload(raw, codec.read)
    return [job(stored), dead_job(stored), schedule(stored)]


def everything() -> list[Any]:
    return [
        *with_payload(CountingCodec()),
        Payload(RAW, CountingCodec().read),
        Wake("mail"),
        QueueStats(
            ready=1, delayed=2, retrying=3, running=4, dead=5, oldest_ready_age=timedelta(1)
        ),
        RunnerHealth(
            healthy=True, state="working", reason=None, last_good_turn=0.5, last_error=None
        ),
    ]


def test_nothing_can_be_changed() -> None:
    for value in everything():
        for attribute in dataclasses.fields(value):
            before = getattr(value, attribute.name)
            with pytest.raises(dataclasses.FrozenInstanceError):
                setattr(value, attribute.name, None)
            with pytest.raises(dataclasses.FrozenInstanceError):
                delattr(value, attribute.name)
            assert getattr(value, attribute.name) is before


def test_nothing_can_be_added() -> None:
    for value in everything():
        assert not hasattr(value, "__dict__")
        with pytest.raises((AttributeError, TypeError)):
            value.note = "mine"


def test_the_payload_and_its_bytes_are_read_only() -> None:
    for value in with_payload(CountingCodec()):
        for name in ("payload", "raw"):
            with pytest.raises((AttributeError, TypeError)):
                setattr(value, name, b"")


def test_a_job_shows_every_attribute_that_the_contract_names() -> None:
    value = job(Payload(RAW, JsonCodec().decode))
    for name in (
        *("id", "queue", "state", "payload", "raw", "priority", "run_at", "expires_at"),
        *("attempts", "max_attempts", "visibility_timeout", "base_backoff", "worker_id"),
        *("claim_expires_at", "schedule", "scheduled_for", "enqueued_at"),
    ):
        assert hasattr(value, name), name


def test_a_schedule_shows_every_attribute_that_the_contract_names() -> None:
    value = schedule(Payload(RAW, JsonCodec().decode))
    for name in (
        *("name", "spec", "interval", "queue", "payload", "priority", "expires", "max_attempts"),
        *("starts_at", "catch_up", "next_fire_at", "last_fire_at", "paused", "skipped"),
        "quarantine",
    ):
        assert hasattr(value, name), name


def test_a_payload_is_decoded_only_when_it_is_read() -> None:
    codec = CountingCodec()
    for reads, value in enumerate(with_payload(codec)):
        assert value.raw == RAW
        assert repr(value)
        assert value == copy.copy(value)
        assert hash(value)
        assert codec.decoded == reads
        assert value.payload == {"password": SECRET}
        assert codec.decoded == reads + 1


def test_each_reading_gives_a_payload_of_its_own() -> None:
    value = job(Payload(b"[1]", JsonCodec().decode))
    value.payload.append(2)
    assert value.payload == [1]


def test_a_damaged_payload_raises_at_the_reading_and_leaves_the_rest_readable() -> None:
    for value in with_payload(CountingCodec(), raw=b"\xff{"):
        assert value.raw == b"\xff{"
        assert value.queue == "mail"
        for _ in range(2):
            with pytest.raises(DecodeError):
                _ = value.payload


def test_no_text_form_shows_a_payload() -> None:
    for value in everything():
        for text in (repr(value), str(value), f"{value}"):
            assert SECRET not in text
            assert "password" not in text
            assert type(value).__name__ in text


def test_what_was_read_from_the_same_row_is_equal() -> None:
    ours, theirs = Payload(RAW, JsonCodec().decode), Payload(RAW, CountingCodec().read)
    assert job(ours) == job(theirs)
    assert hash(job(ours)) == hash(job(theirs))
    assert job(ours) != job(ours, attempts=2)
    assert job(ours) != job(Payload(b"{}", JsonCodec().decode))


def test_values_can_be_copied() -> None:
    for value in everything():
        assert copy.copy(value) == copy.deepcopy(value) == dataclasses.replace(value) == value
