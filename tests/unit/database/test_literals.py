"""Literals for a driver that has no server-side parameters."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import Any

import pytest

from alkstore_postgres.database.seam.literals import literal, render

LITERALS: list[tuple[Any, bytes]] = [
    (None, b"NULL"),
    (True, b"true"),
    (-5, b"'-5'::bigint"),
    (0.1, b"'0.1'::double precision"),
    (1e300, b"'1e+300'::double precision"),
    ("it's \\ é 🦉", rb"E'it\U00000027s \U0000005c \U000000e9 \U0001f989'"),
    (b"\x00\xff'", rb"E'\\x00ff27'::pg_catalog.bytea"),
    (
        datetime(2020, 1, 2, 3, 4, 5, 6, tzinfo=timezone(timedelta(hours=-2))),
        b"'2020-01-02T03:04:05.000006-02:00'::timestamp with time zone",
    ),
]


@pytest.mark.parametrize(("value", "written"), LITERALS, ids=repr)
def test_a_literal_is_ascii_and_depends_on_no_setting(value: Any, written: bytes) -> None:
    assert literal(value) == written
    assert written.isascii()


def test_parameters_are_written_once_and_never_read_again() -> None:
    query = b"SELECT %(a)s, %(b)s, 100 %% 7, %(a)s"
    sent = render(query, {"a": "%(b)s", "b": "%%"})
    assert sent == b"SELECT E'%(b)s', E'%%', 100 % 7, E'%(b)s'"


@pytest.mark.parametrize("value", [object(), [1], datetime(2020, 1, 1)])  # noqa: DTZ001 - refused
def test_another_kind_of_value_is_refused(value: Any) -> None:
    with pytest.raises(TypeError, match="no literal"):
        literal(value)


def test_what_postgresql_cannot_hold_is_refused() -> None:
    with pytest.raises(ValueError, match="NUL"):
        literal("a\0b")
    with pytest.raises(ValueError, match="lone"):
        render(b"SELECT 1 % 2", {})
