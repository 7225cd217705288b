"""Values that go to the server in binary, as they are: arrays, as one parameter each, and UUIDs.

The driver converts a list item by item, and text makes of each byte two digits and escapes
them: over thousands of rows that costs more than what is done with them.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sized
from itertools import chain, repeat

from psycopg import postgres
from psycopg.abc import Buffer
from psycopg.adapt import AdaptersMap, Dumper
from psycopg.pq import Format
from psycopg.types.string import ByteaBinaryLoader

from alkstore._typing import override

_HEADER = struct.Struct("!iiIii")
_LENGTH = struct.Struct("!i")
_LONG = struct.Struct("!iq")
_SIXTEEN = (16).to_bytes(4, "big")


class ByteaArray(list[bytes]):
    """Payloads, as a ``bytea[]``."""


class TidArray(list[bytes]):
    """Places of rows (``ctid``), each as the server sent it in binary, as a ``tid[]``."""


class LongArray(list[int]):
    """Whole numbers, as an ``int8[]``."""


class UuidBytes(bytes):
    """The sixteen bytes of a ``uuid``."""


class UuidArray(list[UuidBytes]):
    """A ``uuid[]``."""


class MomentArray(list[int]):
    """Times, in microseconds since 2000 as the server counts them, as a ``timestamptz[]``."""


def _array(oid: int, items: Sized, encoded: Iterable[bytes]) -> bytes:
    """Return an array of one dimension, without NULLs, that begins at 1."""
    if not items:
        return struct.pack("!iiI", 0, 0, oid)
    return _HEADER.pack(1, 0, oid, len(items), 1) + b"".join(encoded)


class _UuidDumper(Dumper):
    """Dumps the bytes of a UUID."""

    format = Format.BINARY
    oid = postgres.types["uuid"].oid

    @override
    def dump(self, obj: UuidBytes) -> Buffer:
        return obj


class _UuidArrayDumper(Dumper):
    """Dumps the bytes of many."""

    format = Format.BINARY
    item: int

    @override
    def dump(self, obj: list[UuidBytes]) -> Buffer:
        return _array(self.item, obj, map(_SIXTEEN.__add__, obj))


class _BytesDumper(Dumper):
    """Dumps items that are bytes already, whatever their type."""

    format = Format.BINARY
    item: int

    @override
    def dump(self, obj: list[bytes]) -> Buffer:
        lengths = map(_LENGTH.pack, map(len, obj))
        return _array(self.item, obj, chain.from_iterable(zip(lengths, obj, strict=True)))


class _LongDumper(Dumper):
    """Dumps items of eight bytes each."""

    format = Format.BINARY
    item: int

    @override
    def dump(self, obj: list[int]) -> Buffer:
        return _array(self.item, obj, map(_LONG.pack, repeat(8), obj))


def register(adapters: AdaptersMap) -> None:
    """Let *adapters* dump what this module has, and load UUIDs as their bytes."""
    adapters.register_dumper(UuidBytes, _UuidDumper)
    adapters.register_loader("uuid", ByteaBinaryLoader)
    for of, base, name in (
        (ByteaArray, _BytesDumper, "bytea"),
        (TidArray, _BytesDumper, "tid"),
        (UuidArray, _UuidArrayDumper, "uuid"),
        (LongArray, _LongDumper, "int8"),
        (MomentArray, _LongDumper, "timestamptz"),
    ):
        known = postgres.types[name]
        dumper = type(f"{of.__name__}Dumper", (base,), {"oid": known.array_oid, "item": known.oid})
        adapters.register_dumper(of, dumper)  # pyright: ignore[reportArgumentType] - just made
