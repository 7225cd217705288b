"""What the driver's pool logs about our own pools is rationed; nothing else is."""

from __future__ import annotations

import logging

import pytest

from alkstore_postgres.database import pool_log
from alkstore_postgres.database.pool_log import OwnPoolFilter
from alkstore_postgres.settings import POOL_NAME

FAILED = "error connecting in %r: %s"
GAVE_UP = "reconnection attempt in pool %r failed after %s sec"


def record(message: str, *args: object) -> logging.LogRecord:
    return logging.LogRecord("psycopg.pool", logging.WARNING, "", 0, message, args, None)


@pytest.fixture
def now(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The time, to be set."""
    now = [1000.0]
    monkeypatch.setattr("alkstore_postgres.database.ration.time.monotonic", lambda: now[0])
    return now


def test_of_our_own_failed_attempts_one_a_minute_is_logged(now: list[float]) -> None:
    own = OwnPoolFilter()
    passed = 0
    for _ in range(3 * 60):
        passed += own.filter(record(FAILED, POOL_NAME, "away"))
        passed += own.filter(record(GAVE_UP, POOL_NAME, 5.0))
        now[0] += 1.0
    assert passed == 3


def test_so_it_is_with_releases_of_the_pool_that_write_its_name_themselves(
    now: list[float],
) -> None:
    own = OwnPoolFilter()
    passed = 0
    for _ in range(3 * 60):
        passed += own.filter(record(f"error connecting in {POOL_NAME!r}: away"))
        now[0] += 1.0
    assert passed == 3
    assert all(own.filter(record("error connecting in 'other': away")) for _ in range(10))


@pytest.mark.usefixtures("now")
@pytest.mark.parametrize(
    "other",
    [
        record(FAILED, "the application's", "away"),
        record(GAVE_UP, "pool-1", 5.0),
        record("discarding broken connection: %s", POOL_NAME),
        record("no arguments"),
    ],
    ids=lambda other: other.msg,
)
def test_whatever_else_is_logged_passes(other: logging.LogRecord) -> None:
    own = OwnPoolFilter()
    assert own.filter(record(FAILED, POOL_NAME, "away"))
    assert all(own.filter(other) for _ in range(10))


@pytest.mark.parametrize("name", [POOL_NAME, "the application's"])
@pytest.mark.parametrize("is_ending", [False, True])
def test_of_a_thread_that_is_left_at_the_interpreters_end_nothing_is_told(
    monkeypatch: pytest.MonkeyPatch, name: str, is_ending: bool
) -> None:
    left = record("couldn't stop thread %r within %s seconds", f"{name}-worker-0", 0.1)
    monkeypatch.setattr("alkstore_postgres.database.ending._begun", is_ending)
    assert OwnPoolFilter().filter(left) != (is_ending and name == POOL_NAME)


def test_the_filter_is_there_once_however_many_stores_are_opened() -> None:
    for _ in range(3):
        pool_log.calm()
    filters = logging.getLogger("psycopg.pool").filters
    assert sum(isinstance(one, OwnPoolFilter) for one in filters) == 1
