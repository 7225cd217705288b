"""The engine's own cursor, which no setting of the application reaches."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from datetime import datetime, timedelta, timezone
from typing import Any

import psycopg
from psycopg import postgres
from psycopg.abc import Buffer
from psycopg.adapt import AdaptersMap, Loader
from psycopg.pq import Format
from psycopg.rows import TupleRow, tuple_row
from psycopg.types.numeric import Int8BinaryLoader
from psycopg.types.string import ByteaBinaryLoader

from alkstore._typing import override
from alkstore_postgres.database import arrays

Params = Mapping[str, Any] | None

_EIGHT_BYTES = struct.Struct("!q")
_EPOCH_2000 = datetime(2000, 1, 1, tzinfo=timezone.utc)
_FIRST = datetime.min.replace(tzinfo=timezone.utc)
_LAST = datetime.max.replace(tzinfo=timezone.utc)


class _UtcLoader(Loader):
    """Loads ``timestamptz`` as UTC, whatever the session's time zone is.

    Times that Python cannot tell (infinities, years before 1 or after 9999) become the
    first or the last datetime there is: a damaged row must never break a reader.
    """

    format = Format.BINARY

    @override
    def load(self, data: Buffer) -> datetime:
        micros: int = _EIGHT_BYTES.unpack(data)[0]
        try:
            return _EPOCH_2000 + timedelta(0, 0, micros)
        except OverflowError:
            return _LAST if micros > 0 else _FIRST


def _engine_adapters() -> AdaptersMap:
    adapters = AdaptersMap(postgres.adapters)
    arrays.register(adapters)
    adapters.register_loader("timestamptz", _UtcLoader)
    return adapters


def _raw_adapters() -> AdaptersMap:
    adapters = AdaptersMap(_ADAPTERS)
    adapters.register_loader("timestamptz", Int8BinaryLoader)
    adapters.register_loader("tid", ByteaBinaryLoader)
    return adapters


_ADAPTERS = _engine_adapters()
_RAW_ADAPTERS = _raw_adapters()


class EngineCursor(psycopg.Cursor[TupleRow]):
    """A cursor with tuple rows, binary results and the engine's own adapters.

    The connection may belong to the application: its row factory, cursor factory and
    adapters are neither used nor changed.
    """

    def __init__(self, connection: psycopg.Connection[Any]) -> None:
        super().__init__(connection, row_factory=tuple_row)
        self.format = Format.BINARY

    @property
    @override
    def adapters(self) -> AdaptersMap:
        """The engine's adapters."""
        return _ADAPTERS

    def run(self, query: bytes, params: Params = None, *, prepare: bool | None = None) -> None:
        """Execute *query* with *params*.

        Args:
            query: The statement.
            params: Its named parameters.
            prepare: ``None`` leaves it to the connection's threshold, ``False`` leaves
                nothing prepared on the server.
        """
        # Never without parameters: percent signs are doubled in every statement.
        self.execute(query, params or {}, prepare=prepare)

    def fetchvalue(self) -> Any:
        """Return the first value of the first row of a statement that returns one."""
        row = self.fetchone()
        if row is None:
            raise no_row()
        return row[0]


class RawCursor(EngineCursor):
    """A cursor for many rows: times stay numbers, and places of rows (``ctid``) stay bytes.

    A time is its microseconds since 2000, as the server counts them: making a datetime of it
    costs many times what reading it costs. Infinities are the least and the largest number
    of eight bytes.
    """

    @property
    @override
    def adapters(self) -> AdaptersMap:
        """The engine's adapters, but for times and places."""
        return _RAW_ADAPTERS


def no_row() -> LookupError:
    """Return what is raised for a statement that was to return a row and has not."""
    return LookupError("the statement returned no row")
