"""What becomes of a claim after its handler ran."""

from __future__ import annotations

from typing import cast

import pytest

from alkstore._typing import override
from alkstore.runners.attempt import attempt, failure
from alkstore.runners.deliver import EXITS
from alkstore.traits import JobHandle


class Handle:
    """As much of a handle as an attempt looks at."""

    settled = False


def outcome_of(raised: BaseException | None, *, settles: bool = False, exits: bool = False) -> str:
    def work(handle: JobHandle) -> None:
        cast("Handle", handle).settled = settles
        if raised is not None:
            raised.with_traceback(None)
            raise raised

    handle = cast("JobHandle", Handle())
    return attempt(work, handle, exits=EXITS if exits else ()).kind


def test_returning_acknowledges() -> None:
    assert outcome_of(None) == "ack"


@pytest.mark.parametrize(
    "raised", [ValueError("x"), SystemExit(1), KeyboardInterrupt(), GeneratorExit()]
)
def test_raising_in_a_handler_is_a_failed_attempt_whatever_it_is(raised: BaseException) -> None:
    """Field case B54."""
    assert outcome_of(raised) == "retry"


@pytest.mark.parametrize("raised", [SystemExit(1), KeyboardInterrupt()])
def test_an_exit_in_a_delivery_releases(raised: BaseException) -> None:
    assert outcome_of(raised, exits=True) == "release"


@pytest.mark.parametrize("raised", [ValueError("x"), GeneratorExit()])
def test_anything_else_in_a_delivery_is_a_failed_attempt(raised: BaseException) -> None:
    assert outcome_of(raised, exits=True) == "retry"


def test_an_exit_is_told_of_although_everything_was_settled_before() -> None:
    handle, end = Handle(), SystemExit(1)

    def work(_: JobHandle) -> None:
        handle.settled = True
        raise end

    outcome = attempt(work, cast("JobHandle", handle), exits=(SystemExit,))
    assert (outcome.kind, outcome.raised) == ("settled", end)


@pytest.mark.parametrize("raised", [None, ValueError("x"), SystemExit(1)])
def test_what_the_handler_settled_itself_stays_so(raised: BaseException | None) -> None:
    assert outcome_of(raised, settles=True) == "settled"
    assert outcome_of(raised, settles=True, exits=True) == "settled"


class Unspeakable(Exception):
    """An error whose text cannot be had."""

    @override
    def __str__(self) -> str:
        raise RuntimeError


@pytest.mark.parametrize(
    ("raised", "text"),
    [
        (ValueError("no such host"), "no such host"),
        (ValueError(), "ValueError"),
        (Unspeakable(), "Unspeakable"),
        (ValueError("nul\0"), "nul\\x00"),
        (SystemExit(3), "SystemExit: 3"),
        (GeneratorExit(), "GeneratorExit"),
    ],
)
def test_a_failure_always_has_a_text(raised: BaseException, text: str) -> None:
    """Field case B92."""
    assert failure(raised) == text
