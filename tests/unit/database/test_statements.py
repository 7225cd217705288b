"""What the loader makes of statements: they stay cheap for the driver."""

from __future__ import annotations

from importlib import resources

import pytest

from alkstore_postgres.database.statements import Statements

_PARSED_ONCE = 4096
"""psycopg parses a longer statement anew each time it is run."""

_FILES = sorted(
    (package, file.name)
    for package in ("lock", "outbox", "queue", "scheduler", "wakes")
    for file in (resources.files("alkstore_postgres") / package).iterdir()
    if file.name.endswith(".sql")
)


@pytest.mark.parametrize(("package", "file"), _FILES)
def test_every_statement_is_short_enough_to_be_parsed_once(package: str, file: str) -> None:
    statements = Statements(f"alkstore_postgres.{package}", file, "alkstore")
    for name in statements:
        assert len(statements.variant(name, 1000)) <= _PARSED_ONCE, name


@pytest.mark.parametrize(("package", "file"), _FILES)
def test_every_statement_goes_out_on_one_line(package: str, file: str) -> None:
    statements = Statements(f"alkstore_postgres.{package}", file, "alkstore")
    for name in statements:
        assert b"\n" not in statements[name]
        assert b"  " not in statements[name]


def test_numbers_may_be_written_in_the_place_of_parameters() -> None:
    statements = Statements("alkstore_postgres.queue", "enqueue.sql", "alkstore")
    written = statements.with_numbers("enqueue", {"priority": -3, "delay": 1.5, "expires": None})
    assert b"%(priority)s" in statements["enqueue"]
    for gone in (b"%(priority)s", b"%(delay)s", b"%(expires)s"):
        assert gone not in written
    for kept in (b"%(queue)s", b"%(payload)s", b"secs => 1.5", b"secs => NULL", b" -3,"):
        assert kept in written


def test_numbers_are_not_written_into_names() -> None:
    statements = Statements("alkstore_postgres.queue", "enqueue.sql", "x%(priority)s")
    written = statements.with_numbers("enqueue", {"priority": 7})
    assert b'"x%%(priority)s".jobs' in written
    assert b" 7," in written


def test_what_is_quoted_keeps_its_spaces() -> None:
    statements = Statements("alkstore_postgres.queue", "claim.sql", "two  spaces")
    assert b'"two  spaces".jobs' in statements["claim"]
    assert b"'max attempts exceeded'" in statements["sweep"]


def test_parts_stand_where_their_names_were_and_are_no_statements() -> None:
    statements = Statements("alkstore_postgres.queue", "claim.sql", "alkstore")
    claims = [name for name in statements if name.startswith("claim")]
    assert len(claims) >= 5
    for name in claims:
        assert statements.variant(name, 7).count(b"SET claimable = false, claim_id = ") == 1
        assert b"{" not in statements.variant(name, 7)
    for part in ("taken", "row", "overdue"):
        assert part not in tuple(statements)
        with pytest.raises(LookupError, match=part):
            statements[part]
