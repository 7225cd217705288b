"""Arrays in binary say to the server what the driver's own arrays would say."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import psycopg
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from alkstore_postgres.database.arrays import (
    ByteaArray,
    LongArray,
    MomentArray,
    TidArray,
    UuidArray,
    UuidBytes,
)
from alkstore_postgres.database.cursor import EngineCursor, RawCursor
from alkstore_postgres.scheduler.instants import FIRST_MICROS, LAST_MICROS, from_micros

LONGS = st.integers(-(2**63), 2**63 - 1)
MOMENTS = st.integers(FIRST_MICROS, LAST_MICROS)
SETTINGS = settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60, deadline=None
)


def ask(cursor: EngineCursor, query: bytes, **values: Any) -> Any:
    cursor.run(query, values)
    row = cursor.fetchone()
    assert row is not None
    return row[0]


@SETTINGS
@given(items=st.lists(LONGS))
def test_numbers(connection: psycopg.Connection[Any], items: list[int]) -> None:
    assert ask(EngineCursor(connection), b"SELECT %(items)s::int8[]", items=LongArray(items)) == (
        items
    )


@SETTINGS
@given(items=st.lists(st.binary(max_size=50)))
def test_payloads(connection: psycopg.Connection[Any], items: list[bytes]) -> None:
    query = b"SELECT %(items)s::bytea[]"
    assert ask(EngineCursor(connection), query, items=ByteaArray(items)) == items


@SETTINGS
@given(items=st.lists(st.uuids()))
def test_uuids_go_and_come_as_their_bytes(
    connection: psycopg.Connection[Any], items: list[UUID]
) -> None:
    cursor, raws = EngineCursor(connection), [UuidBytes(item.bytes) for item in items]
    told = ask(cursor, b"SELECT %(items)s::uuid[]::text[]", items=UuidArray(raws))
    assert told == [str(item) for item in items]
    for item, raw in zip(items, raws, strict=True):
        assert ask(cursor, b"SELECT %(item)s::uuid::text", item=raw) == str(item)
        assert ask(cursor, b"SELECT %(item)s::text::uuid", item=str(item)) == raw


@SETTINGS
@given(items=st.lists(MOMENTS, min_size=1))
def test_moments(connection: psycopg.Connection[Any], items: list[int]) -> None:
    connection.execute("SET TimeZone = 'America/New_York'")
    told = [from_micros(micros) for micros in items]
    query = b"SELECT %(items)s::timestamptz[]"
    assert ask(EngineCursor(connection), query, items=MomentArray(items)) == told
    query = b"SELECT %(items)s::timestamptz[] = %(told)s::timestamptz[]"
    assert ask(EngineCursor(connection), query, items=MomentArray(items), told=told) is True


@SETTINGS
@given(micros=MOMENTS)
def test_a_raw_time_is_its_microseconds(connection: psycopg.Connection[Any], micros: int) -> None:
    query = b"SELECT %(told)s::timestamptz"
    assert ask(RawCursor(connection), query, told=from_micros(micros)) == micros


def test_raw_times_that_no_calendar_holds(connection: psycopg.Connection[Any]) -> None:
    raw = RawCursor(connection)
    assert ask(raw, b"SELECT 'infinity'::timestamptz") > LAST_MICROS
    assert ask(raw, b"SELECT '10000-01-01 00:00+00'::timestamptz") > LAST_MICROS
    assert ask(raw, b"SELECT '0001-01-01 00:00+00 BC'::timestamptz") < FIRST_MICROS
    assert ask(raw, b"SELECT '-infinity'::timestamptz") < FIRST_MICROS


@SETTINGS
@given(items=st.lists(st.tuples(st.integers(0, 2**32 - 1), st.integers(0, 2**16 - 1))))
def test_places(connection: psycopg.Connection[Any], items: list[tuple[int, int]]) -> None:
    cursor = RawCursor(connection)
    places = [
        ask(cursor, b"SELECT %(told)s::text::tid", told=f"({page},{line})") for page, line in items
    ]
    query = b"SELECT %(places)s::tid[]::text[]"
    assert ask(cursor, query, places=TidArray(places)) == [f"({p},{n})" for p, n in items]
