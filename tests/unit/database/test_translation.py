"""How the errors of drivers and pools become ours."""

from __future__ import annotations

import psycopg
import pytest
from psycopg import errors
from psycopg_pool import PoolClosed, PoolTimeout, TooManyRequests

import alkstore
from alkstore_postgres.database.errors import translate, translate_foreign, translated

STATES = {
    "08006": True,  # connection failure
    "08P01": True,  # protocol violation, by a pooler that lost the server
    "22021": False,  # character not in repertoire
    "22P05": False,  # untranslatable character
    "23505": False,  # unique violation
    "25006": True,  # read only: a failover is under way
    "25P02": False,  # aborted transaction
    "25P03": True,  # idle in transaction for too long
    "28P01": False,  # wrong password
    "3D000": False,  # no such database
    "40001": True,  # serialization failure
    "40P01": True,  # deadlock
    "42501": False,  # permission denied
    "53100": True,  # disk full
    "53300": True,  # too many connections
    "54000": False,  # notification queue full
    "55P03": True,  # lock not available
    "57014": True,  # statement time-out, or cancelled
    "57P01": True,  # shut down by the administrator
    "57P03": True,  # starting up
    "XX000": False,  # internal error
}


@pytest.mark.parametrize("state", STATES)
def test_a_state_tells_whether_to_try_again(state: str) -> None:
    error = errors.lookup(state)("what the server said")
    told = translate(error)
    assert isinstance(told, alkstore.DatabaseError)
    assert (told.sqlstate, told.retryable) == (state, STATES[state])
    assert str(told) == "what the server said"


@pytest.mark.parametrize("state", ["42P01", "42703", "3F000"])
def test_what_is_missing_in_the_schema_calls_for_a_migration(state: str) -> None:
    told = translate(errors.lookup(state)("relation does not exist"))
    assert isinstance(told, alkstore.SchemaOutdated)
    assert "migrate" in str(told)


def test_a_connection_that_broke_is_worth_another_try() -> None:
    for kind in (psycopg.OperationalError, psycopg.InterfaceError):
        told = translate(kind("server closed the connection unexpectedly\n\tThis probably"))
        assert isinstance(told, alkstore.DatabaseError)
        assert (told.sqlstate, told.retryable) == (None, True)
        assert str(told) == "server closed the connection unexpectedly"
    misuse = translate(psycopg.ProgrammingError("misuse"))
    assert isinstance(misuse, alkstore.DatabaseError)
    assert not misuse.retryable


def test_a_pool_that_gave_nothing_is_worth_another_try() -> None:
    for kind in (PoolTimeout, TooManyRequests):
        told = translate(kind("no luck"))
        assert isinstance(told, alkstore.DatabaseError)
        assert told.retryable
    assert isinstance(translate(PoolClosed("closed")), alkstore.StoreClosed)


def test_the_cause_is_the_drivers_error() -> None:
    cause = psycopg.OperationalError("x")
    with pytest.raises(alkstore.DatabaseError) as caught, translated():
        raise cause
    assert caught.value.__cause__ is cause
    with pytest.raises(ZeroDivisionError), translated():
        raise ZeroDivisionError


def test_an_error_of_another_driver_is_recognised_by_what_it_has() -> None:
    class Diagnostics:
        message_primary = "primary"

    class OperationalError(Exception):
        pgcode: str | None = None
        diag = Diagnostics()

    lost = translate_foreign(OperationalError("x"))
    assert isinstance(lost, alkstore.DatabaseError)
    assert (str(lost), lost.sqlstate, lost.retryable) == ("primary", None, True)
    conflict = OperationalError("x")
    conflict.pgcode = "40001"
    told = translate_foreign(conflict)
    assert isinstance(told, alkstore.DatabaseError)
    assert (told.sqlstate, told.retryable) == ("40001", True)
    wrapped = RuntimeError("of a framework")
    wrapped.__cause__ = conflict
    told = translate_foreign(wrapped)
    assert isinstance(told, alkstore.DatabaseError)
    assert told.sqlstate == "40001"
    for nothing in (None, RuntimeError()):
        assert isinstance(translate_foreign(nothing), alkstore.DatabaseError)
