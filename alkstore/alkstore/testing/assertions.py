"""Assertions about what is in a queue, an outbox or the schedules."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields as fields_of
from datetime import timedelta
from typing import Any, Final, Protocol, runtime_checkable

from alkstore.errors import DecodeError, InvalidOption
from alkstore.traits import Scheduler
from alkstore.values import DeadJob, Job, Schedule

MOST: Final = 10_000
"""So many jobs are looked at. Where as many are there, there may be more."""

SHOWN: Final = 10
"""So many of them a failure shows."""

_SEVERAL: Final = 2
"""Where less is asked for, all that is there differs in that."""

_NOT_A_FIELD: Final = {"stored", "payload"}
"""What is no attribute to compare: the one is wrapped bytes, the other has a place of its own."""


@runtime_checkable
class Inspectable(Protocol):
    """What can be looked into: a `Queue` or an `Outbox` of any engine."""

    @property
    def name(self) -> str:
        """Its name."""
        ...

    def peek(self, limit: int = ...) -> list[Job]:
        """Return live jobs."""
        ...

    def dead(self, limit: int = ..., after: DeadJob | None = ...) -> list[DeadJob]:
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
            ``schedule="report"``; durations in seconds or as a `timedelta`.

    A job that has expired, or whose last attempt has lapsed, is still a live job here until a
    claim meets it and makes it a dead letter; `drain` claims.

    Returns:
        The jobs that look like this.

    Raises:
        AssertionError: They are not there; the message shows what is, the first 10 of it. Or
            there are 10,000 live jobs or more, and those that are looked at do not tell.
        TypeError: *where* is no queue and no outbox, or a `Job` has no such attribute.
        InvalidOption: *count* is no ``int`` of at least 0.
    """
    return _live(where, payload, count, fields)


def assert_not_enqueued(where: Inspectable, payload: Any = _ANYTHING, **fields: Any) -> None:
    """Fail when a live job is there that looks like this; arguments as `assert_enqueued`.

    Raises:
        AssertionError: There is one; or there are 10,000 live jobs or more, and the first of
            them do not tell.
        TypeError: As `assert_enqueued`.
    """
    _live(where, payload, 0, fields)


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
        **fields: What attributes of `DeadJob` equal, as with `assert_enqueued`.

    Returns:
        The dead letters that look like this.

    Raises:
        AssertionError: They are not there; the message shows what is, the first 10 of it. Or
            there are 10,000 dead letters or more, and the latest of them do not tell.
        TypeError: *where* is no queue and no outbox, *error* no text, or a `DeadJob` has no
            such attribute.
        InvalidOption: *count* is no ``int`` of at least 0.
    """
    _check_arguments(where, DeadJob, fields, count)
    _check_text(error)
    letters = where.dead(MOST)
    found = [
        letter
        for letter in letters
        if _matches(letter, payload, fields) and (error is None or error in letter.error)
    ]
    told = fields if error is None else {"error": error, **fields}
    wanted = _wanted("dead letter", where, count, payload, told)
    _refuse_to_guess(found, count, wanted, letters)
    if not _is_right(found, count):
        live = ""
        if _is_few(found, count):
            alike = _alike(where.peek(MOST), payload, fields)
            live = _near_miss(letters, payload, fields) + _elsewhere(
                "live jobs (a claim that meets one may end it)", alike
            )
        raise AssertionError(_told_failure(found, wanted, letters) + live)
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
        TypeError: *store* is no store, or a `Schedule` has no such attribute.
        InvalidName: *name* breaks the naming rule.
    """
    if isinstance(store, type) or not hasattr(store, "get_schedule"):
        raise TypeError(f"a store is needed, not {_named(store)}")
    _check_fields(Schedule, fields)
    schedule = store.get_schedule(name)
    if schedule is None:
        names = ", ".join(repr(found.name) for found in store.schedules()) or "none"
        raise AssertionError(f"there is no schedule {name!r}; there is: {names}")
    if not _matches(schedule, payload, fields):
        raise AssertionError(
            f"the schedule {name!r} is not as expected ({_told(payload, fields)}):\n"
            f"  {_shown(schedule)}{_near_miss([schedule], payload, fields)}"
        )
    return schedule


def _live(where: Inspectable, payload: Any, count: int | None, fields: dict[str, Any]) -> list[Job]:
    """Return the live jobs that look like this; fail unless there are as many as wanted."""
    _check_arguments(where, Job, fields, count)
    jobs = where.peek(MOST)
    found = [job for job in jobs if _matches(job, payload, fields)]
    wanted = _wanted("live job", where, count, payload, fields)
    _refuse_to_guess(found, count, wanted, jobs)
    if not _is_right(found, count):
        dead = ""
        if _is_few(found, count):
            alike = _alike(where.dead(MOST), payload, fields)
            dead = _near_miss(jobs, payload, fields) + _elsewhere("dead letters", alike)
        raise AssertionError(_told_failure(found, wanted, jobs) + dead)
    return found


def _matches(job: Job | DeadJob | Schedule, payload: Any, fields: dict[str, Any]) -> bool:
    return not _differences(job, payload, fields)


def _differences(
    job: Job | DeadJob | Schedule, payload: Any, fields: dict[str, Any]
) -> list[tuple[str, Any, Any]]:
    """Return what is not as wanted: its name, what it is, what it should be."""
    found: list[tuple[str, Any, Any]] = []
    if payload is not _ANYTHING:
        try:
            there = job.payload
        except DecodeError:
            found.append(("payload", job.raw, payload))
        else:
            if there != payload:
                found.append(("payload", there, payload))
    for name, wanted in fields.items():
        actual = getattr(job, name)
        if not _is_same(actual, wanted):
            found.append((name, actual, wanted))
    return found


def _is_same(actual: Any, wanted: Any) -> bool:
    """Return whether a field is as wanted; a duration may be told in seconds, as an option is."""
    if isinstance(actual, timedelta) and type(wanted) in (int, float):
        try:
            return actual == timedelta(seconds=wanted)
        except (ValueError, OverflowError):  # NaN, or longer than any duration
            return False
    return bool(actual == wanted)


def _near_miss(there: Sequence[Job | DeadJob | Schedule], payload: Any, fields: Any) -> str:
    """Tell of one that differs in one thing of several, with the right payload if there is one."""
    if len(fields) + (payload is not _ANYTHING) < _SEVERAL:
        return ""
    differences = [_differences(job, payload, fields) for job in there]
    near = [found[0] for found in differences if len(found) == 1]
    near.sort(key=lambda difference: difference[0] == "payload")
    for name, actual, wanted in near[:1]:
        return f"\none differs in its {name} only: {actual!r}, not {wanted!r}"
    return ""


def _check_arguments(
    where: object, kind: type[Job | DeadJob], fields: dict[str, Any], count: object
) -> None:
    """Refuse mistakes of the test, whatever the queue holds."""
    if isinstance(where, type) or not isinstance(where, Inspectable):
        raise TypeError(
            f"a queue or an outbox is needed, such as store.queue('mail'), not {_named(where)}"
        )
    _check_fields(kind, fields)
    if count is None:
        return
    if isinstance(count, bool) or not isinstance(count, int) or count < 0:
        given = repr(count) if isinstance(count, int) else _named(count)
        raise InvalidOption(f"count must be an int of at least 0, or None, not {given}")


def _check_text(error: object) -> None:
    if error is not None and not isinstance(error, str):
        raise TypeError(f"error must be a part of the error's text, a str, not {_named(error)}")


def _check_fields(kind: type[Job | DeadJob | Schedule], fields: dict[str, Any]) -> None:
    known = {"raw", *(field.name for field in fields_of(kind))} - _NOT_A_FIELD
    for name in fields:
        if name not in known:
            raise TypeError(
                f"a {kind.__name__} has no {name!r}; it has: {', '.join(sorted(known))}"
            )


def _named(value: object) -> str:
    """Return what *value* is, a short text as it is."""
    if isinstance(value, type):
        return f"the class {value.__name__}"
    return ascii(value)[:60] if isinstance(value, str) else f"a {type(value).__name__}"


def _is_right(found: list[Any], count: int | None) -> bool:
    return bool(found) if count is None else len(found) == count


def _refuse_to_guess(
    found: list[Any], count: int | None, wanted: str, there: list[Job] | list[DeadJob]
) -> None:
    """Fail when there may be more than was looked at, and what was found does not decide."""
    if len(there) < MOST or (bool(found) if count is None else len(found) > count):
        return
    raise AssertionError(
        f"expected {wanted}, found {len(found)} among the {MOST:,} that were looked at; "
        "there may be more of them: test with fewer jobs"
    )


def _told_failure(found: list[Any], wanted: str, there: list[Job] | list[DeadJob]) -> str:
    # Those that it is about come first: no more than a few are shown.
    shown = {job.id for job in found}
    others = [job for job in there if job.id not in shown]
    return f"expected {wanted}, found {len(found)}; there is:{_listed([*found, *others])}"


def _is_few(found: list[Any], count: int | None) -> bool:
    return len(found) < (1 if count is None else count)


def _alike(
    others: list[Job] | list[DeadJob], payload: Any, fields: dict[str, Any]
) -> list[Job | DeadJob]:
    """Return those that look like this, as far as they have these attributes at all."""
    return [
        job
        for job in others
        if _matches(job, payload, {k: v for k, v in fields.items() if hasattr(type(job), k)})
    ]


def _elsewhere(kind: str, alike: list[Job | DeadJob]) -> str:
    return f"\nbut among the {kind} there is:{_listed(alike)}" if alike else ""


def _listed(there: Sequence[Job | DeadJob]) -> str:
    lines = "".join(f"\n  {_shown(job)}" for job in there[:SHOWN]) or " nothing"
    more = len(there) - SHOWN
    return f"{lines}\n  and {more} more" if more > 0 else lines


def _wanted(
    kind: str, where: Inspectable, count: int | None, payload: Any, fields: dict[str, Any]
) -> str:
    told = _told(payload, fields)
    many = f"at least 1 {kind}" if count is None else f"{count} {kind}{'' if count == 1 else 's'}"
    return f"{many} in {where.name!r}" + (f" with {told}" if told else "")


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
