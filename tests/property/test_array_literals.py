"""Array literals say to the server what the driver's own arrays would say."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import psycopg
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from alkstore_postgres.scheduler.arrays import array, moments, quoted
from alkstore_postgres.scheduler.instants import LAST_MICROS, from_micros

TEXTS = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=20)
TRICKY = st.sampled_from(["", "NULL", "null", "{}", "a,b", '"', "\\", '\\"', " ", "{a}", "'", "%s"])
SETTINGS = settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60, deadline=None
)

Ask = Callable[[str, str], list[Any]]


def ask(connection: psycopg.Connection[Any], kind: str, literal: str) -> list[Any]:
    row = connection.execute(f"SELECT %s::{kind}[]", [literal]).fetchone()
    assert row is not None
    return list(row[0])


@SETTINGS
@given(texts=st.lists(TEXTS | TRICKY, min_size=1))
def test_texts(connection: psycopg.Connection[Any], texts: list[str]) -> None:
    assert ask(connection, "text", array(quoted(text) for text in texts)) == texts


@SETTINGS
@given(instants=st.lists(st.integers(-60_000_000_000_000_000, LAST_MICROS), min_size=1))
def test_moments(connection: psycopg.Connection[Any], instants: list[int]) -> None:
    connection.execute("SET DateStyle = 'SQL, DMY'")
    connection.execute("SET TimeZone = 'America/New_York'")
    literal = moments(instants)
    row = connection.execute(
        "SELECT %s::timestamptz[] = %s::timestamptz[]",
        [
            literal,
            [from_micros(micros) for micros in instants],
        ],
    ).fetchone()
    assert row == (True,)
