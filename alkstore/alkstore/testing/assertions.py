"""Assertions about what is in a queue, an outbox or the schedules."""

from __future__ import annotations

from typing import Any, Final, Protocol

from alkstore.errors import DecodeError
from alkstore.traits import Scheduler
from alkstore.values import DeadJob, Job, Schedule

MOST: Final = 10_000
"""So many jobs are looked at."""


class Inspectable(Protocol):
    """What can be looked into: a `Queue` or an `Outbox` of any engine."""

    @property
    def name(self) -> str:
        """Its name."""
        ...

    def peek(self, limit: int = ...) -> list[Job]:
        """Return live jobs."""
        ...

    def dead(self, limit: int = ...) -> list[DeadJob]:
        """Return dead letters."""
        ...


class _Anything:
    """Stands for a payload that was not given: `None` is a payload."""


_ANYTHING = _Anything()


def assert_enqueued(
    where: Inspectable, payload: Any = _ANYTHING, *, count: int | None = None, **fields: Any
) -> list[Job]:
    """Fail unless live jobs are there that look like this.

    Args:
        where: A queue or an outbox.
        payload: What their payload equals (`unittest.mock.ANY` may stand inside).
        count: How many there must be; ``None``: at least one.
        **fields: What attributes of `Job` equal, such as ``priority=5`` or
            ``schedule="report"``.

    Returns:
        The jobs that look like this.

    Raises:
        AssertionError: They are not there; the message shows what is.
    """
    jobs = where.peek(MOST)
    found = [job for job in jobs if _matches(job, payload, fields)]
    _check(found, count, _wanted("live job", where, payload, fields), jobs)
    return found


def assert_not_enqueued(where: Inspectable, payload: Any = _ANYTHING, **fields: Any) -> None:
    """Fail when a live job is there that looks like this; arguments as `assert_enqueued`.

    Raises:
        AssertionError: There is one.
    """
    jobs = where.peek(MOST)
    found = [job for job in jobs if _matches(job, payload, fields)]
    _check(found, 0, _wanted("live job", where, payload, fields), jobs)


def assert_dead(
    where: Inspectable,
    payload: Any = _ANYTHING,
    *,
    error: str | None = None,
    count: int | None = None,
    **fields: Any,
) -> list[DeadJob]:
    """Fail unless dead letters are there that look like this.

    Args:
        where: A queue or an outbox.
        payload: What their payload equals.
        error: What their error's text contains.
        count: How many there must be; ``None``: at least one.
        **fields: What attributes of `DeadJob` equal.

    Returns:
        The dead letters that look like this.

    Raises:
        AssertionError: They are not there; the message shows what is.
    """
    letters = where.dead(MOST)
    found = [
        letter
        for letter in letters
        if _matches(letter, payload, fields) and (error is None or error in letter.error)
    ]
    told = fields if error is None else {"error": error, **fields}
    _check(found, count, _wanted("dead letter", where, payload, told), letters)
    return found


def assert_scheduled(
    store: Scheduler, name: str, payload: Any = _ANYTHING, **fields: Any
) -> Schedule:
    """Fail unless the schedule *name* is there and looks like this.

    Args:
        store: The store.
        name: The schedule's name.
        payload: What its payload equals.
        **fields: What attributes of `Schedule` equal, such as ``spec="@every 1h"``.

    Returns:
        The schedule.

    Raises:
        AssertionError: It is not there, or looks otherwise.
    """
    schedule = store.get_schedule(name)
    if schedule is None:
        names = ", ".join(repr(found.name) for found in store.schedules()) or "none"
        raise AssertionError(f"there is no schedule {name!r}; there is: {names}")
    if not _matches(schedule, payload, fields):
        raise AssertionError(
            f"the schedule {name!r} is not as expected ({_told(payload, fields)}):\n"
            f"  {_shown(schedule)}"
        )
    return schedule


def _matches(job: Job | DeadJob | Schedule, payload: Any, fields: dict[str, Any]) -> bool:
    for name in fields:
        if not hasattr(type(job), name):
            raise TypeError(f"a {type(job).__name__} has no {name!r}")
    if payload is not _ANYTHING:
        try:
            if job.payload != payload:
                return False
        except DecodeError:
            return False
    return all(getattr(job, name) == value for name, value in fields.items())


def _check(
    found: list[Any], count: int | None, wanted: str, there: list[Job] | list[DeadJob]
) -> None:
    if (bool(found) if count is None else len(found) == count) is True:
        return
    expected = "at least 1" if count is None else str(count)
    lines = "".join(f"\n  {_shown(job)}" for job in there) or " nothing"
    raise AssertionError(f"expected {expected} {wanted}, found {len(found)}; there is:{lines}")


def _wanted(kind: str, where: Inspectable, payload: Any, fields: dict[str, Any]) -> str:
    told = _told(payload, fields)
    return f"{kind} in {where.name!r}" + (f" with {told}" if told else "")


def _told(payload: Any, fields: dict[str, Any]) -> str:
    parts = [] if payload is _ANYTHING else [f"payload={payload!r}"]
    return ", ".join([*parts, *(f"{name}={value!r}" for name, value in fields.items())])


def _shown(job: Job | DeadJob | Schedule) -> str:
    """Return the payload, which a test may show, in front of the other fields."""
    try:
        payload = repr(job.payload)
    except DecodeError:
        payload = repr(job.raw)
    return f"{payload} {job!r}"
