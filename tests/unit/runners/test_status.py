"""What a runner tells: states, counts, and a log that does not flood."""

from __future__ import annotations

import logging

import pytest

from alkstore._typing import override
from alkstore.runners.status import Status

STATUS = "alkstore.runners.status"


@pytest.fixture
def status(caplog: pytest.LogCaptureFixture) -> Status:
    """Return a status whose log is caught."""
    caplog.set_level(logging.INFO, STATUS)
    return Status("worker emails")


def test_an_outage_is_told_once_with_its_traceback_and_once_when_it_is_over(
    status: Status, caplog: pytest.LogCaptureFixture
) -> None:
    """Field case B08, issue of fault cost: one line per state change."""
    for _ in range(1_000):
        status.failed("claims", ConnectionError("away"))
    status.good("claims", "working")
    told = [(one.levelname, one.exc_info is not None) for one in caplog.records]
    assert told == [("ERROR", True), ("INFO", False)]
    assert status.failures == 1_000


def test_each_new_kind_of_error_in_an_outage_is_told(
    status: Status, caplog: pytest.LogCaptureFixture
) -> None:
    for error in (ConnectionError("a"), KeyError("b"), ConnectionError("c"), MemoryError()):
        status.failed("claims", error)
    assert len(caplog.records) == 3
    assert isinstance(status.last_error, MemoryError)


def test_a_flapping_part_does_not_flood_the_log(
    status: Status, caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(1_000):
        status.failed("claims", ConnectionError("away"))
        status.good("claims")
    assert len(caplog.records) <= 50


def test_it_backs_off_until_every_part_that_failed_is_well_again(status: Status) -> None:
    status.good("claims", "working")
    status.failed("claims", ConnectionError())
    status.failed("heartbeats", ConnectionError())
    assert status.state == "backing-off"
    status.good("claims")
    assert status.state == "backing-off"
    status.good("heartbeats")
    states = [status.state]
    assert states == ["working"]


def test_a_sign_of_life_does_not_end_an_outage(status: Status) -> None:
    status.failed("claims", ConnectionError())
    status.alive("claims")
    assert status.state == "backing-off"
    assert status.last_good_turn(0.0) is None
    status.over("claims")
    status.alive("claims")
    assert status.last_good_turn(0.0) is not None


def test_failures_in_a_row_are_counted_per_part(status: Status) -> None:
    assert [status.failed("claims", KeyError()) for _ in range(3)] == [1, 2, 3]
    assert status.failed("settlement", KeyError()) == 1
    status.good("claims")
    assert status.failed("claims", KeyError()) == 1


def test_a_log_handler_that_raises_harms_nothing(status: Status) -> None:
    class Broken(logging.Handler):
        @override
        def emit(self, record: logging.LogRecord) -> None:
            raise OSError(record.msg)

    logger = logging.getLogger(STATUS)
    broken = Broken()
    logger.addHandler(broken)
    try:
        status.failed("claims", KeyError("x"))
    finally:
        logger.removeHandler(broken)
    assert status.state == "backing-off"
