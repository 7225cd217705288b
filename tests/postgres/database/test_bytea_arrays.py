"""Arrays of payloads arrive byte for byte."""

from __future__ import annotations

from typing import Any

import psycopg
import pytest

from alkstore_postgres.database.arrays import ByteaArray
from alkstore_postgres.database.cursor import EngineCursor

_PAYLOADS = [b"", b"\\x41", b'"{},NULL', bytes(range(256)), b"\0" * 70_000]


@pytest.mark.parametrize("payloads", [[], [b""], _PAYLOADS, [b"%d" % n for n in range(10_000)]])
def test_payloads_arrive_as_they_were(
    connection: psycopg.Connection[Any], payloads: list[bytes]
) -> None:
    cursor = EngineCursor(connection)
    cursor.run(b"SELECT %(items)s::pg_catalog.bytea[]", {"items": ByteaArray(payloads)})
    assert cursor.fetchone() == (payloads,)
    cursor.run(
        b"SELECT item FROM pg_catalog.unnest(%(items)s::pg_catalog.bytea[]) AS item",
        {"items": ByteaArray(payloads)},
    )
    assert [row[0] for row in cursor.fetchall()] == payloads
