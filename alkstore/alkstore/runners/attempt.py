"""One attempt at a job: the application's code is called, and what is to become of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from alkstore.error_text import error_text
from alkstore.runners.work import Work, call
from alkstore.traits import JobHandle


@dataclass(frozen=True, slots=True)
class Outcome:
    """What is to become of a claim.

    Attributes:
        kind: ``"ack"``, ``"retry"`` on the curve with the text *error*, ``"release"``, or
            ``"settled"`` when there is nothing left to do.
        error: The text of what went wrong.
        raised: What the application's code raised, or ``None``.
    """

    kind: Literal["ack", "retry", "release", "settled"]
    error: str = ""
    raised: BaseException | None = None


ACK = Outcome("ack")
RELEASE = Outcome("release")
SETTLED = Outcome("settled")


def attempt(
    work: Work, handle: JobHandle, *, exits: tuple[type[BaseException], ...] = ()
) -> Outcome:
    """Call *work* with *handle* and tell what is to become of the claim.

    When it returns what is still to be run, such as a coroutine, that is a failed attempt.

    Args:
        work: The application's code.
        handle: The claim.
        exits: What means that the program wants to end and not that the attempt failed;
            the claim is released then. Anything else that is raised, `SystemExit` and the
            like included, is a failed attempt.
    """
    try:
        call(work, handle)
    except exits as raised:
        return Outcome("settled" if handle.settled else "release", raised=raised)
    except BaseException as raised:  # noqa: BLE001 - the caller decides by the outcome
        return Outcome("settled" if handle.settled else "retry", failure(raised), raised)
    return SETTLED if handle.settled else ACK


def failure(raised: BaseException) -> str:
    """Return the text that tells what was raised.

    The error's own text; an exit has hardly any (``3``), so its class goes in front.
    """
    text = error_text(raised)
    name = type(raised).__name__
    return text if isinstance(raised, Exception) or text == name else f"{name}: {text}"


def settle(handle: JobHandle, outcome: Outcome) -> bool:
    """Write *outcome*; return whether the claim was still this one."""
    if outcome.kind == "ack":
        return handle.ack()
    if outcome.kind == "retry":
        return handle.retry(outcome.error)
    if outcome.kind == "release":
        return handle.release()
    return True
