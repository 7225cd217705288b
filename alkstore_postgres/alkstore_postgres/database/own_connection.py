"""Connections of the store's own pool: statements go out below psycopg's cursors.

psycopg's cursor converts its query, counts its runs and makes its loaders anew for each
statement. Nobody but the engine runs statements on these connections (an application that
borrows one inside a transaction uses cursors of its own), so all of that is kept here for as
long as the connection lives.
"""

from __future__ import annotations

import select
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import psycopg
from psycopg import errors
from psycopg.abc import Buffer
from psycopg.adapt import AdaptersMap, Transformer
from psycopg.pq import ConnStatus, ExecStatus, Format, TransactionStatus
from psycopg.pq.abc import PGresult
from psycopg.rows import TupleRow

from alkstore._typing import override
from alkstore_postgres.database.answer import await_answer, cancel
from alkstore_postgres.database.client_encoding import is_utf8
from alkstore_postgres.database.cursor import EngineCursor, Params, no_row
from alkstore_postgres.database.wire import Key, name_of, numbered

_GOOD = frozenset({ExecStatus.TUPLES_OK, ExecStatus.COMMAND_OK})

_OUTDATED = (errors.InvalidSqlStatementName, errors.FeatureNotSupported)
"""A prepared statement is not there any more; its result would have another type now."""

_MOST_PREPARED = 200
"""So many statements are prepared on one connection at most."""

_LENT = (
    "row_factory",
    "cursor_factory",
    "server_cursor_factory",
    "prepare_threshold",
    "prepared_max",
)
"""What an application may set on a connection that it is lent, and is set back."""

_KEEP_PLANS = (
    b"SELECT CASE WHEN pg_catalog.pg_backend_pid() OPERATOR(pg_catalog.=) %d"
    b" AND pg_catalog.current_setting('plan_cache_mode') OPERATOR(pg_catalog.=) 'auto'"
    b" THEN pg_catalog.set_config('plan_cache_mode', 'force_generic_plan', false) END IS NOT NULL"
)
"""Not where a pooler stands in between: the session is somebody else's as well. It hands out
process ids of its own. And not where the application has decided for itself."""

_Values = Sequence[Buffer | None]


class OwnConnection(psycopg.Connection[TupleRow]):
    """A connection of the store's own pool: in autocommit mode, in UTF-8.

    psycopg's own preparing is off, so that it never has the server forget what is prepared
    here; `EngineCursor.run` prepares after as many runs as were given as
    ``prepare_threshold``.
    """

    handed_out_at: float = 0.0
    """When the pool has handed it out, as `time.monotonic` tells; for `OwnPool`."""

    keeps_plans: bool | None = False
    """Whether prepared statements may be planned once, for all values; ``None``: never again."""

    poll: Any = None
    """What watches the socket, once something does; see `watch`."""

    kept_cursor: OwnCursor | None = None
    """The engine's cursor, once there is one; see `engine_cursor`."""

    @property
    def engine_cursor(self) -> OwnCursor:
        """The engine's cursor, kept with the connection."""
        if self.kept_cursor is None:
            self.kept_cursor = OwnCursor(self, self.prepare_threshold)
            self.prepare_threshold = None
        return self.kept_cursor

    def is_silent(self) -> bool:
        """Return whether the server is there, as far as is known, and has said nothing.

        The quick half of `pools.is_dead`: what is not silent may still be alive.
        """
        if self.pgconn.status == ConnStatus.BAD:  # as `closed` tells, by a call less
            return False
        poll = self.poll or self.watch()
        return poll is not None and not poll.poll(0)

    def watch(self) -> Any:
        """Have the socket watched; return what does it, kept for as long as the connection.

        ``None``: there is no such thing here.
        """
        if hasattr(select, "poll"):
            poll = select.poll()
            poll.register(self.fileno(), select.POLLIN)
            self.poll = poll  # last: with one that watches nothing an answer never comes
        return self.poll

    @contextmanager
    def lent(self) -> Iterator[None]:
        """Lend the connection to the application for the block.

        Its settings in this process are afterwards what they were. Settings of the server's
        session stay as the application left them, with the exception of the client encoding:
        names would become others, so that a connection in another one is closed. For the first
        loan of a connection its plans are the application's affair again, in one round trip;
        after that nothing is sent for a loan.

        Raises:
            psycopg.Error: The connection is lost.
        """
        assert self.engine_cursor is not None  # noqa: S101 - it takes the threshold over
        if self.keeps_plans:
            self.execute("RESET plan_cache_mode")
            self.keeps_plans = None
        former = {name: getattr(self, name) for name in _LENT}
        adapters = AdaptersMap(self.adapters)
        handlers = (list(self._notice_handlers), list(self._notify_handlers))
        try:
            yield
        finally:
            for name, value in former.items():
                setattr(self, name, value)
            self._adapters = adapters
            self._notice_handlers, self._notify_handlers = handlers
            if not self.closed and not (self.autocommit and is_utf8(self)):
                self.close()  # the pool makes another one


class OwnCursor(EngineCursor):
    """Runs statements on an `OwnConnection`.

    Args:
        connection: The connection.
        threshold: After how many runs a statement is prepared; ``None``: never.
    """

    def __init__(self, connection: OwnConnection, threshold: int | None) -> None:
        super().__init__(connection)
        self._own = connection
        self._threshold = threshold
        self._kept = Transformer.from_context(self)
        self._runs: dict[Key, int] = {}
        self._names: dict[Key, bytes] = {}
        self._stale = False  # the server may still have what is forgotten here
        self._answer: PGresult | None = None

    @override
    def run(self, query: bytes, params: Params = None, *, prepare: bool | None = None) -> None:
        """Run one statement; see `EngineCursor.run`. Ctrl-C cancels it."""
        text, names, formats = numbered(query)
        given = params or {}
        self._answer = None
        with self._own.lock:
            values = self._kept.dump_sequence([*map(given.__getitem__, names)], formats)
            key = (text, self._kept.types or ())
            try:
                if prepare is False or self._threshold is None:
                    self._answer = self._run_plain(key, values)
                elif (name := self._names.get(key)) is not None:
                    self._answer = self._run_prepared(name, key, values)
                else:
                    self._answer = self._run_counted(key, values, self._threshold)
            except KeyboardInterrupt:  # sent or not yet, answered or not yet
                cancel(self._own)
                raise

    @property
    @override
    def rowcount(self) -> int:
        """How many rows the last statement touched or returned; -1 once they were fetched."""
        answer = self._answer
        return (answer.command_tuples or 0) if answer is not None else -1

    @override
    def fetchone(self) -> TupleRow | None:
        """Return the first row of the last statement, and let go of the answer."""
        kept, answer = self._kept, self._take()
        try:
            return kept.load_row(0, tuple) if answer.ntuples else None
        finally:
            kept.set_pgresult(None)

    @override
    def fetchvalue(self) -> Any:
        """Return the first value of the last statement's first row, and let go of the answer."""
        kept, answer = self._kept, self._take()
        try:
            if answer.ntuples:
                return kept.load_row(0, tuple)[0]
        finally:
            kept.set_pgresult(None)
        raise no_row()

    @override
    def fetchall(self) -> list[TupleRow]:
        """Return all rows of the last statement, and let go of the answer."""
        answer = self._take()
        try:
            return self._kept.load_rows(0, answer.ntuples, tuple)
        finally:
            self._kept.set_pgresult(None)

    def _take(self) -> PGresult:
        answer, self._answer = self._answer, None
        if answer is None or answer.status != ExecStatus.TUPLES_OK:
            msg = "the last statement returned no rows"
            raise psycopg.ProgrammingError(msg)
        self._kept.set_pgresult(answer)
        return answer

    def _run_plain(self, key: Key, values: _Values) -> PGresult:
        self._own.pgconn.send_query_params(
            key[0],
            values,
            param_types=key[1],
            param_formats=self._kept.formats,
            result_format=Format.BINARY,
        )
        return self._wait()

    def _run_counted(self, key: Key, values: _Values, threshold: int) -> PGresult:
        runs = self._runs.get(key, 0)
        if runs < threshold:
            self._runs[key] = runs + 1
            return self._run_plain(key, values)
        return self._run_prepared(self._prepare(key), key, values)

    def _run_prepared(self, name: bytes, key: Key, values: _Values) -> PGresult:
        try:
            self._own.pgconn.send_query_prepared(
                name, values, param_formats=self._kept.formats, result_format=Format.BINARY
            )
            return self._wait()
        except _OUTDATED:
            # Somebody had the server discard it, or a migration has changed the table. It
            # has not run.
            self._forget()
            if self._own.pgconn.transaction_status == TransactionStatus.INERROR:
                raise  # `Database.run` begins again
            return self._run_plain(key, values)

    def _keep_plans(self) -> None:
        """Have the server plan each prepared statement once, for all values.

        By itself it plans the first runs of each anew, and some of them ever again, which takes
        longer than to run them.
        """
        own = self._own
        # Of a transaction it would be a part: undone with it, and its end if it fails.
        if own.keeps_plans is not False or not self._is_idle():
            return
        own.keeps_plans = True  # perhaps: Ctrl-C may come before the answer
        statement = _KEEP_PLANS % own.info.backend_pid
        own.pgconn.send_query_params(statement, None, result_format=Format.BINARY)
        try:
            answer = self._wait()
        except psycopg.Error:
            if not self._is_idle():
                raise
            own.keeps_plans = None  # some server that does not know it
        else:
            own.keeps_plans = answer.get_value(0, 0) == b"\1" or None

    def _is_idle(self) -> bool:
        return self._own.pgconn.transaction_status == TransactionStatus.IDLE

    def _prepare(self, key: Key) -> bytes:
        self._keep_plans()
        if len(self._names) >= _MOST_PREPARED:
            self._forget()
        if self._stale:
            self._own.pgconn.send_query(b"DEALLOCATE ALL")
            self._wait()
            self._stale = False
        name = name_of(key)
        self._own.pgconn.send_prepare(name, key[0], param_types=key[1])
        try:
            self._wait()
        except errors.DuplicatePreparedStatement:
            # An interrupted call has left it, or somebody else in a pooler's session: the
            # name says that it is the same.
            self._names[key] = name
            if self._own.pgconn.transaction_status == TransactionStatus.INERROR:
                raise  # `Database.run` begins again
        self._names[key] = name
        return name

    def _forget(self) -> None:
        """Forget what is prepared; the server is told before something is prepared again."""
        self._names.clear()
        self._runs.clear()
        self._stale = True

    def _wait(self) -> PGresult:
        """Return the answer to what was sent, unless it is an error."""
        own = self._own
        answer = await_answer(own, own.poll or own.watch())
        if answer.status not in _GOOD:
            raise errors.error_from_result(answer, encoding="utf-8")
        return answer
