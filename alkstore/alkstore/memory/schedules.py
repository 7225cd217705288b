"""Schedules: registered, changed, looked at, removed, and fired."""

from __future__ import annotations

import logging
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

from alkstore._typing import Unpack
from alkstore.arguments import MAX_SECONDS
from alkstore.errors import InvalidOption, InvalidSpec, ScheduleQuarantined, UnknownSchedule
from alkstore.memory.access import Access
from alkstore.memory.clock import later
from alkstore.memory.data import JobRow, MemoryData, ScheduleRow
from alkstore.memory.every import read_every
from alkstore.memory.faults import MAX_SKIPPED, fault, reason
from alkstore.memory.grid import EndOfCalendarError, Owed, is_usable, next_after, owed
from alkstore.names import SCHEDULER_LOCK, check_name
from alkstore.options import QUEUE_DEFAULTS, ScheduleOptions, resolve_schedule
from alkstore.runners.say import say
from alkstore.values import Schedule

logger = logging.getLogger("alkstore.scheduler")

_LATE_AFTER = timedelta(minutes=1)
_SKIPPED = "schedule %a skipped %d boundaries (%d fired)"
_QUARANTINED = "schedule %a is quarantined until it is registered again: %s"


class Schedules:
    """Keeps the schedules of a store; see the trait `Scheduler` for each call's contract.

    Args:
        access: The way to the tables.
    """

    def __init__(self, access: Access) -> None:
        self._access = access

    def schedule(
        self, name: str, spec: str, queue: str, payload: Any, **options: Unpack[ScheduleOptions]
    ) -> Schedule:
        """Register a schedule, or change it, by name; see `Scheduler.schedule`."""
        name = check_name(name, "schedule")
        interval = read_every(spec)
        queue = check_name(queue, "queue")
        settings = resolve_schedule(options)
        if settings.starts_at is not None and not is_usable(settings.starts_at):
            msg = "starts_at lies at the very edge of the calendar"
            raise InvalidOption(msg)
        wanted = ScheduleRow(
            name=name,
            spec=str.__str__(spec),
            queue=queue,
            payload=self._access.encode(payload),
            priority=settings.priority,
            expires=settings.expires,
            max_attempts=settings.max_attempts,
            catch_up=settings.catch_up,
            starts_at=settings.starts_at,
            next_fire_at=None,
        )
        with self._access.tables() as data:
            _register(data, wanted, interval)
            return self._view(data.schedules[name])

    def unschedule(self, name: str) -> bool:
        """Remove a schedule; see `Scheduler.unschedule`."""
        name = check_name(name, "schedule")
        with self._access.tables() as data:
            found = data.schedules.pop(name, None) is not None
            if found:
                data.wakes.wake(SCHEDULER_LOCK)
            return found

    def schedules(self) -> list[Schedule]:
        """Return all schedules by name, damaged ones with the reason."""
        with self._access.tables() as data:
            return [self._view(row) for _, row in sorted(data.schedules.items())]

    def get_schedule(self, name: str) -> Schedule | None:
        """Return one schedule, or ``None``."""
        name = check_name(name, "schedule")
        with self._access.tables() as data:
            row = data.schedules.get(name)
            return None if row is None else self._view(row)

    def pause(self, name: str) -> bool:
        """Fire nothing for it until it is resumed; see `Scheduler.pause`."""
        name = check_name(name, "schedule")
        with self._access.tables() as data:
            row = data.schedules.get(name)
            if row is None:
                return False
            row.paused = True
            data.wakes.wake(SCHEDULER_LOCK)
            return True

    def resume(self, name: str) -> bool:
        """Go on at the first boundary of its grid after now; see `Scheduler.resume`."""
        name = check_name(name, "schedule")
        with self._access.tables() as data:
            row = data.schedules.get(name)
            if row is None:
                return False
            if row.paused is not False:
                row.paused = False
                row.next_fire_at = _resumed(row, data.clock.now())
                data.wakes.wake(SCHEDULER_LOCK)
            return True

    def run_now(self, name: str) -> int:
        """Fire one extra job and return its id; see `Scheduler.run_now`."""
        name = check_name(name, "schedule")
        with self._access.tables() as data:
            row = data.schedules.get(name)
            if row is None:
                msg = f"there is no schedule {name!a}"
                raise UnknownSchedule(msg)
            why = reason(row)
            if why is not None:
                msg = f"the schedule {name!a} cannot be fired: {why}"
                raise ScheduleQuarantined(msg)
            return _fire(data, row, None, data.clock.now())

    def tick(self, permit: Callable[[], None] | None = None) -> int:
        """Fire all that is due; return how many jobs that were.

        Args:
            permit: Called under the same lock before anything is fired, to prove a lease;
                what it raises ends the tick. ``None``: tick, whoever leads.
        """
        report: list[tuple[Any, ...]] = []
        with self._access.tables() as data:
            if permit is not None:
                permit()
            now = data.clock.now()
            # All that can fail comes first: fires and advance come together, or not at all.
            due = [row for row in data.schedules.values() if _is_due(row, now)]
            verdicts = [_owed(row, now) for row in due]
            fires: list[tuple[datetime, ScheduleRow]] = []
            for row, verdict in zip(due, verdicts, strict=True):
                fires += ((boundary, row) for boundary in _advance(row, verdict, report))
            for boundary, row in sorted(fires, key=lambda fire: (fire[0], fire[1].name)):
                _fire(data, row, boundary, now)
        for level, message, *details in report:
            say(logger, level, message, *details)
        return len(fires)

    def until_soonest(self) -> float | None:
        """Return how many seconds are left until the next boundary of all, or ``None``."""
        with self._access.tables() as data:
            soonest = min(
                (
                    row.next_fire_at
                    for row in data.schedules.values()
                    if row.paused is not True
                    and row.quarantine is None
                    and row.next_fire_at is not None
                    and is_usable(row.next_fire_at)
                ),
                default=None,
            )
            return None if soonest is None else (soonest - data.clock.now()).total_seconds()

    def review(self) -> dict[str, Any]:
        """Return what is wrong with the schedules, for the health call of a runner."""
        late: list[str] = []
        quarantined: dict[str, str] = {}
        with self._access.tables() as data:
            now = data.clock.now()
            for name, row in sorted(data.schedules.items()):
                why = reason(row)
                if why is not None:
                    quarantined[name] = why
                elif not row.paused and _is_late(row, now):
                    late.append(name)
        return {"late": late, "quarantined": quarantined}

    def _view(self, row: ScheduleRow) -> Schedule:
        """Return the row as the application sees it, as far as a damaged one can be shown."""
        try:
            interval = read_every(row.spec)
        except InvalidSpec:
            interval = timedelta(0)
        return Schedule(
            stored=self._access.stored(row.payload or b""),
            name=row.name,
            spec=row.spec or "",
            interval=interval,
            queue=row.queue or "",
            priority=row.priority or 0,
            expires=_duration(row.expires),
            max_attempts=row.max_attempts,
            starts_at=_instant(row.starts_at),
            catch_up=row.catch_up or "",
            next_fire_at=_instant(row.next_fire_at),
            last_fire_at=_instant(row.last_fire_at),
            paused=bool(row.paused),
            skipped=max(_count(row.skipped), 0),
            quarantine=reason(row),
        )


def _duration(seconds: float | None) -> timedelta | None:
    """Return a duration that can be shown, or ``None``."""
    if not isinstance(seconds, (int, float)) or not abs(seconds) <= MAX_SECONDS:  # NaN is not
        return None
    return timedelta(seconds=seconds)


def _instant(instant: datetime | None) -> datetime | None:
    """Return an instant that can be computed with, or ``None``."""
    return instant if is_usable(instant) else None


def _register(data: MemoryData, wanted: ScheduleRow, interval: timedelta) -> None:
    """Store *wanted*; what has happened to a row of its name stays, and damage is mended."""
    row = data.schedules.get(wanted.name)
    if row is not None and _is_same_grid(row, interval, wanted.starts_at):
        wanted.next_fire_at = row.next_fire_at
    else:
        now = data.clock.now()
        try:
            anchor = now if wanted.starts_at is None else wanted.starts_at
            wanted.next_fire_at = next_after(anchor, interval, now)
        except EndOfCalendarError:
            msg = "no boundary of this grid lies before the year 10000"
            raise InvalidOption(msg) from None
    if row is not None:
        wanted.paused = bool(row.paused)
        wanted.skipped = max(_count(row.skipped), 0)
        wanted.last_fire_at = _instant(row.last_fire_at)
        if row == wanted and fault(row) is None:
            return  # it says exactly this already
    data.schedules[wanted.name] = wanted
    data.wakes.wake(SCHEDULER_LOCK)


def _is_same_grid(row: ScheduleRow, interval: timedelta, starts_at: datetime | None) -> bool:
    try:
        stored = read_every(row.spec)
    except InvalidSpec:
        return False
    return stored == interval and row.starts_at == starts_at and is_usable(row.next_fire_at)


def _resumed(row: ScheduleRow, now: datetime) -> datetime | None:
    """Return where a paused schedule goes on; what is damaged stays for the tick to find."""
    if row.next_fire_at is None or not is_usable(row.next_fire_at):
        return row.next_fire_at
    try:
        return next_after(row.next_fire_at, read_every(row.spec), now)
    except (EndOfCalendarError, InvalidSpec):
        return row.next_fire_at


def _is_late(row: ScheduleRow, now: datetime) -> bool:
    """Whether a boundary of a sound row has been due for so long that nobody seems to fire."""
    assert row.next_fire_at is not None  # noqa: S101 - `fault` has looked at it
    return now - row.next_fire_at > max(2 * read_every(row.spec), _LATE_AFTER)


def _is_due(row: ScheduleRow, now: datetime) -> bool:
    """Whether a tick has to look at *row*: a boundary has come, or its time is damaged."""
    if row.paused is True or row.quarantine is not None:
        return False
    if row.next_fire_at is None or not is_usable(row.next_fire_at):
        return True
    return row.next_fire_at <= now


def _owed(row: ScheduleRow, now: datetime) -> Owed | str | None:
    """Return what is to be fired of *row*, which is due, or what is wrong with it."""
    why = fault(row)
    if why is not None or row.next_fire_at is None:
        return why
    try:
        return owed(row.next_fire_at, read_every(row.spec), now, latest=row.catch_up == "latest")
    except EndOfCalendarError:
        return "its next boundary lies after the year 9999"


def _advance(
    row: ScheduleRow, verdict: Owed | str | None, report: list[tuple[Any, ...]]
) -> list[datetime]:
    """Move *row* behind what it owes, or set it aside; return the boundaries that are to be fired.

    Args:
        row: What is due.
        verdict: What it owes, or what is wrong with it.
        report: What is to be logged comes on top of it.
    """
    if not isinstance(verdict, Owed):
        row.quarantine = verdict
        report.append((logging.ERROR, _QUARANTINED, row.name, verdict))
        return []
    row.next_fire_at = verdict.goes_on
    row.last_fire_at = verdict.fires[-1] if verdict.fires else row.last_fire_at
    row.skipped = min(max(_count(row.skipped), 0) + verdict.skipped, MAX_SKIPPED)
    if verdict.skipped:
        fired = len(verdict.fires)
        report.append((logging.WARNING, _SKIPPED, row.name, verdict.skipped, fired))
    return verdict.fires


def _count(skipped: object) -> int:
    """Return how many were skipped, as far as a row can tell."""
    return skipped if isinstance(skipped, int) else 0


def _fire(data: MemoryData, row: ScheduleRow, boundary: datetime | None, now: datetime) -> int:
    """Store one job of *row* with its stamps; return the job's id."""
    assert row.payload is not None  # noqa: S101 - `fault` has looked at it
    attempts = QUEUE_DEFAULTS.max_attempts if row.max_attempts is None else row.max_attempts
    job = JobRow(
        id=data.new_job_id(),
        queue=row.queue,
        payload=row.payload,
        priority=row.priority,
        run_at=now,
        expires_at=None if row.expires is None else later(now, row.expires),
        max_attempts=attempts,
        visibility_timeout=QUEUE_DEFAULTS.visibility_timeout,
        base_backoff=QUEUE_DEFAULTS.base_backoff,
        enqueued_at=now,
        schedule=row.name,
        scheduled_for=boundary,
    )
    data.jobs[job.id] = job
    data.wakes.wake(row.queue)
    return job.id
