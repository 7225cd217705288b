"""The registry: schedules are registered, changed, looked at and removed here."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from alkstore._typing import Unpack
from alkstore.codec import Codec, encode_payload
from alkstore.errors import DatabaseError, InvalidOption, ScheduleQuarantined, UnknownSchedule
from alkstore.names import SCHEDULER_LOCK, check_name
from alkstore.options import QUEUE_DEFAULTS, ScheduleOptions, resolve_schedule
from alkstore.stop_token import StopToken
from alkstore.values import Schedule
from alkstore_postgres.database.database import Database
from alkstore_postgres.database.errors import NOTIFY_QUEUE_FULL
from alkstore_postgres.database.session import Session
from alkstore_postgres.database.statements import Statements
from alkstore_postgres.scheduler.attendant import Attendant
from alkstore_postgres.scheduler.boundaries import NoBoundaryLeft, first_after
from alkstore_postgres.scheduler.every import parse_every
from alkstore_postgres.scheduler.instants import from_micros, in_calendar, is_sound, to_micros
from alkstore_postgres.scheduler.registration import Registration, next_boundary
from alkstore_postgres.scheduler.row import Row, fault
from alkstore_postgres.scheduler.view import ScheduleReport, moment, report, to_schedule

_REVIEW_LIMIT = 5.0
"""After how long the server ends the statement of a review, in seconds."""

_REVIEW_CUT = 10.0
"""After how long the connection of a review is cut, in seconds: the server is out of reach."""

T = TypeVar("T")

_Outcome = tuple[T, "str | None"]
"""What a change returns, and the mechanism to wake, if any."""


class Registry:
    """Keeps the schedules of a store; see the trait `Scheduler` for each call's contract.

    Args:
        database: The way to the database.
        channel: The notification channel of the schema.
        codec: Encodes payloads.
        max_payload_bytes: The largest encoded payload.
    """

    def __init__(
        self, database: Database, channel: str, codec: Codec, max_payload_bytes: int
    ) -> None:
        self._database = database
        self._channel = channel
        self._codec = codec
        self._max_payload_bytes = max_payload_bytes
        self._sql = Statements(__package__, "registry.sql", database.schema)

    def schedule(
        self, name: str, spec: str, queue: str, payload: Any, **options: Unpack[ScheduleOptions]
    ) -> Schedule:
        """Register a schedule, or change it, by name; see `Scheduler.schedule`."""
        name = check_name(name, "schedule")
        seconds = parse_every(spec)
        queue = check_name(queue, "queue")
        settings = resolve_schedule(options)
        if settings.starts_at is not None and not is_sound(settings.starts_at):
            raise InvalidOption("starts_at lies at the very edge of the calendar")
        raw = encode_payload(self._codec, payload, self._max_payload_bytes)
        wanted = Registration(name, str.__str__(spec), seconds, queue, raw, settings)
        columns = self._waking(lambda session: self._register(session, wanted))
        return to_schedule(columns, self._codec)

    def unschedule(self, name: str) -> bool:
        """Remove a schedule; see `Scheduler.unschedule`."""
        return self._touch("delete", check_name(name, "schedule"))

    def schedules(self) -> list[Schedule]:
        """Return all schedules by name, damaged ones with the reason."""
        rows = self._database.fetch_all(self._sql["all"])
        return [to_schedule(columns, self._codec) for columns in rows]

    def get_schedule(self, name: str) -> Schedule | None:
        """Return one schedule, or ``None``."""
        params = {"name": check_name(name, "schedule")}
        columns = self._database.fetch_one(self._sql["one"], params)
        return None if columns is None else to_schedule(columns, self._codec)

    def pause(self, name: str) -> bool:
        """Fire nothing for it until it is resumed; see `Scheduler.pause`."""
        return self._touch("pause", check_name(name, "schedule"))

    def resume(self, name: str) -> bool:
        """Go on at the first boundary of its grid after now; see `Scheduler.resume`."""
        name = check_name(name, "schedule")
        return self._waking(lambda session: self._resume(session, name))

    def run_now(self, name: str) -> int:
        """Fire one extra job and return its id; see `Scheduler.run_now`."""
        name = check_name(name, "schedule")
        return self._waking(lambda session: self._run_now(session, name))

    def review(self) -> dict[str, Any]:
        """Return what is wrong with the schedules, for the health call of a runner.

        However long a server is out of reach or a table locked, it ends, and gives its
        connection back.

        Raises:
            DatabaseError: The database could not be asked, or did not answer in time.
        """
        attendant = Attendant(_REVIEW_CUT)
        database = attendant.watching(self._database)
        reports: list[ScheduleReport] = []

        def ask(_stop: StopToken) -> None:
            with database.transaction() as session:
                limit = {"limit": f"{_REVIEW_LIMIT * 1000:.0f}ms"}
                session.execute(self._sql["limit"], limit)
                reports.append(report(session.fetch_raw(self._sql["judge"])))

        attendant.run(ask, StopToken())
        (found,) = reports
        return {"late": found.late, "quarantined": found.quarantined}

    def report(self) -> ScheduleReport:
        """Return how the schedules stand; reads every row."""
        with self._database.connection() as connection:
            return report(Session(connection).fetch_raw(self._sql["judge"]))

    def _register(self, session: Session, wanted: Registration) -> _Outcome[Sequence[Any]]:
        while True:
            now, *columns = self._locked(session, wanted.name)
            row = None if columns[0] is None else Row.read(columns[:-1])
            try:
                boundary = next_boundary(wanted, row, to_micros(now))
            except NoBoundaryLeft:
                raise InvalidOption("no boundary of this grid lies before the year 10000") from None
            params = wanted.columns() | {"next_fire_at": from_micros(boundary)}
            if row is None:
                stored = session.fetch_one(self._sql["insert"], params)
                if stored is None:
                    continue  # another session registered it first: its row is there now
                return stored, SCHEDULER_LOCK
            if wanted.is_stored_as(row, columns[-1]):
                return columns, None
            params["paused"] = bool(row.paused)
            params["skipped"] = row.skipped_with(0)
            params["last_fire_at"] = moment(row.last_fire_at)
            stored = session.fetch_one(self._sql["update"], params)
            assert stored is not None  # noqa: S101 - this transaction holds the row
            return stored, SCHEDULER_LOCK

    def _resume(self, session: Session, name: str) -> _Outcome[bool]:
        now, *columns = self._locked(session, name)
        if columns[0] is None:
            return False, None
        row = Row.read(columns[:-1])
        if row.paused is False:
            return True, None  # nothing was missed for being paused, so nothing is passed over
        params: dict[str, Any] = {"name": name}
        try:
            if row.next_fire_at is not None and in_calendar(row.next_fire_at):
                boundary = first_after(row.boundary, row.interval, to_micros(now))
                params["next_fire_at"] = from_micros(boundary)
        except (NoBoundaryLeft, ValueError):
            pass  # a damaged spec has no grid; the tick will say so
        session.execute(self._sql["resume" if "next_fire_at" in params else "unpause"], params)
        return True, SCHEDULER_LOCK

    def _run_now(self, session: Session, name: str) -> _Outcome[int]:
        columns = session.fetch_one(self._sql["one"], {"name": name})
        if columns is None:
            raise _unknown(name)
        row = Row.read(columns[:-1])
        reason = fault(row) if row.quarantine is None else row.quarantine
        if reason is not None:
            raise ScheduleQuarantined(f"the schedule {name!a} cannot be fired: {reason}")
        params = {
            "name": name,
            "max_attempts": QUEUE_DEFAULTS.max_attempts,
            "visibility_timeout": QUEUE_DEFAULTS.visibility_timeout,
            "base_backoff": QUEUE_DEFAULTS.base_backoff,
        }
        stored = session.fetch_one(self._sql["run_now"], params)
        if stored is None:
            raise _unknown(name)
        return stored[0], row.queue

    def _touch(self, statement: str, name: str) -> bool:
        def work(session: Session) -> _Outcome[bool]:
            found = session.execute(self._sql[statement], {"name": name}) > 0
            return found, SCHEDULER_LOCK if found else None

        return self._waking(work)

    def _locked(self, session: Session, name: str) -> Sequence[Any]:
        row = session.fetch_one(self._sql["now_and_row"], {"name": name})
        assert row is not None  # noqa: S101 - the statement always returns one row
        return row

    def _waking(self, work: Callable[[Session], _Outcome[T]]) -> T:
        """Run *work* and tell the mechanism that it names, in one transaction."""

        def attempt(session: Session, *, wake: bool) -> T:
            result, mechanism = work(session)
            if wake and mechanism is not None:
                params = {"channel": self._channel, "mechanism": mechanism}
                session.execute(self._sql["notify"], params)
            return result

        try:
            return self._database.run(lambda session: attempt(session, wake=True))
        except DatabaseError as error:
            if error.sqlstate != NOTIFY_QUEUE_FULL:
                raise
        # Nothing was stored: the full queue is told at the commit. A wake is only a hint.
        return self._database.run(lambda session: attempt(session, wake=False))


def _unknown(name: str) -> UnknownSchedule:
    return UnknownSchedule(f"there is no schedule {name!a}")
