"""The engine's own cursor, which no setting of the application reaches."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from datetime import datetime, timedelta, timezone
from typing import Any

import psycopg
from psycopg import postgres
from psycopg.abc import Buffer
from psycopg.adapt import AdaptersMap, Dumper, Loader
from psycopg.pq import Format
from psycopg.rows import TupleRow, tuple_row

from alkstore._typing import override

Params = Mapping[str, Any] | None

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
        micros = int.from_bytes(bytes(data), "big", signed=True)
        try:
            return _EPOCH_2000 + timedelta(microseconds=micros)
        except OverflowError:
            return _LAST if micros > 0 else _FIRST


class ByteaArray(list[bytes]):
    """Payloads to be sent as one ``bytea[]``, in binary.

    A list is sent as text, in which each byte becomes two digits and each item is escaped.
    """


class _ByteaArrayDumper(Dumper):
    """Dumps a `ByteaArray`: one dimension, no NULLs, from 1."""

    format = Format.BINARY
    oid = postgres.types["bytea"].array_oid

    @override
    def dump(self, obj: ByteaArray) -> Buffer:
        if not obj:
            return struct.pack("!iiI", 0, 0, _BYTEA)
        parts = [struct.pack("!iiIii", 1, 0, _BYTEA, len(obj), 1)]
        for item in obj:
            parts += (len(item).to_bytes(4, "big"), item)
        return b"".join(parts)


_BYTEA = postgres.types["bytea"].oid


def _engine_adapters() -> AdaptersMap:
    adapters = AdaptersMap(postgres.adapters)
    adapters.register_dumper(ByteaArray, _ByteaArrayDumper)
    adapters.register_loader("timestamptz", _UtcLoader)
    return adapters


_ADAPTERS = _engine_adapters()


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
