"""Leases: rows with an owner, an end on the store clock, and a token that only grows."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import psycopg
import pytest
from psycopg import sql

from alkstore.errors import DatabaseError
from alkstore_postgres.lock.leases import BUSY_RETRY, Lease, Leases
from alkstore_postgres.store import PostgresStore
from tests.support.timing import Stopwatch

OpenStore = Callable[..., PostgresStore]
Row = tuple[Any, ...]


@pytest.fixture
def leases(store: PostgresStore) -> Leases:
    return store._parts.leases


class Table:
    """The lock table, as a hand in the database sees and changes it."""

    def __init__(self, connection: psycopg.Connection[Any], schema: str) -> None:
        self._connection = connection
        self._schema = schema

    def row(self, name: str) -> Row | None:
        query = "SELECT name, owner, token, acquired_at, expires_at, xmin FROM {} WHERE name = %s"
        return self._run(query, name).fetchone()

    def set_end(self, name: str, end: str | None) -> None:
        assert self._run("UPDATE {} SET expires_at = %s WHERE name = %s", end, name).rowcount == 1

    def lapse(self, name: str) -> None:
        query = "UPDATE {} SET expires_at = clock_timestamp() - interval '1 ms' WHERE name = %s"
        assert self._run(query, name).rowcount == 1

    def delete(self, name: str) -> None:
        assert self._run("DELETE FROM {} WHERE name = %s", name).rowcount == 1

    def hold(self, name: str, strength: str) -> None:
        self._run("SELECT FROM {} WHERE name = %s FOR " + strength, name)

    def _run(self, query: str, *params: object) -> psycopg.Cursor[Any]:
        table = sql.Identifier(self._schema, "locks")
        return self._connection.execute(sql.SQL(query).format(table), params)


@pytest.fixture
def table(connection: psycopg.Connection[Any], schema: str) -> Table:
    return Table(connection, schema)


@pytest.fixture
def other(conninfo: str, schema: str) -> Iterator[Table]:
    """Another session, inside a transaction."""
    with psycopg.connect(conninfo) as connection:
        yield Table(connection, schema)
        connection.rollback()


def taken(outcome: Lease | float) -> Lease:
    assert isinstance(outcome, Lease)
    return outcome


def test_a_free_lease_is_taken_and_a_held_one_tells_how_long(leases: Leases) -> None:
    lease = leases.acquire("x", "me", 60.0)
    assert lease == Lease("x", "me", 1)
    left = leases.acquire("x", "you", 60.0)
    assert isinstance(left, float)
    assert 55 < left <= 60


def test_an_owner_does_not_enter_twice(leases: Leases) -> None:
    taken(leases.acquire("x", "me", 60.0))
    assert isinstance(leases.acquire("x", "me", 60.0), float)


def test_each_fresh_acquisition_gets_a_larger_token(leases: Leases, table: Table) -> None:
    tokens = []
    for number in range(6):
        lease = taken(leases.acquire("x", f"owner {number}", 60.0))
        tokens.append(lease.token)
        if number % 2:
            table.lapse("x")
        else:
            assert leases.release(lease)
    assert tokens == sorted(set(tokens))


def test_a_renewal_keeps_the_token(leases: Leases, table: Table) -> None:
    lease = taken(leases.acquire("x", "me", 60.0))
    assert leases.renew(lease, 120.0)
    row = table.row("x")
    assert row is not None
    assert row[2] == lease.token
    left = leases.acquire("x", "you", 1.0)
    assert isinstance(left, float)
    assert left > 100


def test_a_stale_renewal_or_release_leaves_the_new_holders_row_byte_for_byte(
    leases: Leases, table: Table
) -> None:
    """Field case B04: also under the same owner, where only the token tells them apart."""
    stale = taken(leases.acquire("x", "me", 60.0))
    table.lapse("x")
    taken(leases.acquire("x", "me", 60.0))
    before = table.row("x")
    assert not leases.renew(stale, 600.0)
    assert not leases.release(stale)
    assert table.row("x") == before


def test_a_stale_release_of_a_released_lease_changes_nothing(leases: Leases, table: Table) -> None:
    lease = taken(leases.acquire("x", "me", 60.0))
    assert leases.release(lease)
    before = table.row("x")
    assert not leases.release(lease)
    assert not leases.renew(lease, 60.0)
    assert table.row("x") == before


def test_a_lapsed_lease_that_nobody_took_is_still_its_holders(leases: Leases, table: Table) -> None:
    lease = taken(leases.acquire("x", "me", 60.0))
    table.lapse("x")
    assert leases.renew(lease, 60.0)
    assert isinstance(leases.acquire("x", "you", 60.0), float)
    table.lapse("x")
    assert leases.release(lease)


@pytest.mark.parametrize("end", [None, "infinity", "-infinity"])
def test_an_end_that_only_a_hand_can_have_written_counts_as_lapsed(
    leases: Leases, store: PostgresStore, table: Table, end: str | None
) -> None:
    """Field case B122."""
    lease = taken(leases.acquire("x", "me", 60.0))
    table.set_end("x", end)
    with store._parts.database.transaction() as session:
        assert not leases.prove(session, lease)
    assert taken(leases.acquire("x", "you", 60.0)).token == lease.token + 1


def test_a_row_that_was_deleted_by_hand_is_lost_and_free(leases: Leases, table: Table) -> None:
    """Field case B06."""
    lease = taken(leases.acquire("x", "me", 60.0))
    table.delete("x")
    assert not leases.renew(lease, 60.0)
    taken(leases.acquire("x", "me", 60.0))


def shifted(clock: Callable[[], float], seconds: float) -> float:
    return clock() + seconds


def test_the_lease_counts_from_when_the_server_runs_the_statement(
    leases: Leases, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Field case B30: no client clock decides anything that is stored."""
    real = time.time
    for offset in (300.0, -300.0):
        monkeypatch.setattr(time, "time", partial(shifted, real, offset))
        name = f"x{offset}"
        taken(leases.acquire(name, "me", 60.0))
        left = leases.acquire(name, "you", 60.0)
        assert isinstance(left, float)
        assert 55 < left <= 60


@pytest.mark.parametrize("strength", ["UPDATE", "SHARE", "KEY SHARE"])
def test_nobody_waits_for_a_lapsed_lease_that_a_transaction_holds_on_to(
    leases: Leases, table: Table, other: Table, strength: str
) -> None:
    taken(leases.acquire("x", "me", 60.0))
    table.lapse("x")
    other.hold("x", strength)
    with Stopwatch() as watch:
        assert leases.acquire("x", "you", 60.0) == BUSY_RETRY
    assert watch.seconds < 1


def test_a_renewal_and_a_release_wait_for_nobody(leases: Leases, other: Table) -> None:
    lease = taken(leases.acquire("x", "me", 60.0))
    other.hold("x", "UPDATE")
    calls: list[Callable[[], bool]] = [
        lambda: leases.renew(lease, 60.0),
        lambda: leases.release(lease),
    ]
    with Stopwatch() as watch:
        for call in calls:
            with pytest.raises(DatabaseError) as caught:
                call()
            assert caught.value.retryable
    assert watch.seconds < 2


def test_a_proven_lease_cannot_be_taken_before_the_transaction_ends(
    leases: Leases, store: PostgresStore
) -> None:
    lease = taken(leases.acquire("x", "me", 60.0))
    with store._parts.database.transaction() as session:
        assert leases.prove(session, lease)
        assert leases.renew(lease, 0.001)  # its own holder is not in the way of itself
        time.sleep(0.01)
        assert leases.acquire("x", "you", 60.0) == BUSY_RETRY
        assert not leases.prove(session, lease)
    assert taken(leases.acquire("x", "you", 60.0)).owner == "you"


def test_what_is_not_held_is_not_proven(leases: Leases, store: PostgresStore, table: Table) -> None:
    lease = taken(leases.acquire("x", "me", 60.0))
    with store._parts.database.transaction() as session:
        for wrong in (Lease("x", "you", 1), Lease("x", "me", 2), Lease("y", "me", 1)):
            assert not leases.prove(session, wrong)
    table.lapse("x")
    with store._parts.database.transaction() as session:
        assert not leases.prove(session, lease)


def test_a_full_notification_queue_does_not_keep_a_lock_from_being_released(
    leases: Leases, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Field case B77: error 54000 is told at the commit, and undoes the release with it."""
    lease = taken(leases.acquire("x", "me", 60.0))
    database = leases._database
    execute = database.execute

    def full(query: bytes, params: Any = None) -> int:
        if b"pg_notify" in query:
            raise DatabaseError("too many notifications in the NOTIFY queue", sqlstate="54000")
        return execute(query, params)

    monkeypatch.setattr(database, "execute", full)
    assert leases.release(lease)
    taken(leases.acquire("x", "you", 60.0))


def test_each_call_is_one_statement(leases: Leases, monkeypatch: pytest.MonkeyPatch) -> None:
    statements: list[bytes] = []
    database = leases._database
    for method in ("execute", "fetch_one"):
        real = getattr(database, method)

        def counted(query: bytes, params: Any = None, real: Any = real) -> Any:
            statements.append(query)
            return real(query, params)

        monkeypatch.setattr(database, method, counted)
    lease = taken(leases.acquire("x", "me", 60.0))
    leases.acquire("x", "you", 60.0)
    leases.renew(lease, 60.0)
    leases.release(lease)
    assert len(statements) == 4
