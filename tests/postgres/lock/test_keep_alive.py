"""Locks that are kept: renewed from a thread that tells the body when the lock was lost."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from psycopg import sql

from alkstore import DatabaseError
from alkstore_postgres.lock.leases import Leases
from alkstore_postgres.store import PostgresStore
from tests.support.handles import held, is_lost
from tests.support.timing import in_time
from tests.support.waiting import wait_until


def keepers() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name.startswith("alkstore-lock")]


@pytest.fixture(autouse=True)
def _no_thread_stays() -> Iterator[None]:
    yield
    wait_until(lambda: not keepers())


TTL = 1.0
"""Of a lock that is kept, in seconds."""


def outlives(store: PostgresStore, ttl: float) -> bool:
    """Return whether a kept lock is held for more than three times its TTL."""
    with held(store.try_lock("x", ttl, keep_alive=True)) as handle:
        until = time.monotonic() + 3.2 * ttl
        while time.monotonic() < until:
            thief = store.try_lock("x", 60)
            if thief is not None:
                assert thief.release()
            if thief is not None or handle.lost:
                return False
            time.sleep(0.05)
    return True


def test_a_kept_lock_outlives_its_ttl(store: PostgresStore) -> None:
    in_time(lambda: 0.0 if outlives(store, TTL) else TTL, TTL)
    assert store.try_lock("x", 60) is not None


def test_the_body_is_told_when_another_took_it(
    store: PostgresStore, connection: psycopg.Connection[Any], schema: str
) -> None:
    table = sql.Identifier(schema, "locks")
    with held(store.try_lock("x", 0.9, keep_alive=True)) as handle:
        # In one statement: the lock is kept, and would be renewed before a second one.
        query = (
            "UPDATE {} SET owner = 'another', token = token + 1,"
            " expires_at = clock_timestamp() + interval '1 h'"
        )
        assert connection.execute(sql.SQL(query).format(table)).rowcount == 1
        wait_until(lambda: handle.lost, 0.9)
        assert not handle.renew()
    query = "SELECT owner FROM {} WHERE expires_at > clock_timestamp() + interval '50 min'"
    assert connection.execute(sql.SQL(query).format(table)).fetchall() == [("another",)]


def test_the_body_is_told_when_no_renewal_succeeded_for_a_ttl(
    store: PostgresStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> bool:
        raise DatabaseError("away", retryable=True)

    def be_told() -> float:
        with monkeypatch.context() as patched:
            patched.setattr(store._parts.leases, "renew", fail)
            began = time.monotonic()
            handle = held(store.try_lock("x", 0.6, keep_alive=True))
            lost = is_lost(handle)
            assert not lost or time.monotonic() - began >= 0.6
            wait_until(lambda: handle.lost, 2)
            took = time.monotonic() - began
        assert not handle.renew()  # what was told stays told
        assert is_lost(handle)
        assert handle.release()  # the row was still its own
        return took

    in_time(be_told, 0.8)


def test_a_renewal_that_hangs_is_no_excuse(
    store: PostgresStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    hanging = threading.Event()
    monkeypatch.setattr(store._parts.leases, "renew", lambda *_: hanging.wait(30))
    handle = held(store.try_lock("x", 0.5, keep_alive=True))
    wait_until(lambda: handle.lost, 0.7)
    hanging.set()
    handle.release()


def test_one_failed_renewal_is_made_good(
    store: PostgresStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    leases = store._parts.leases
    renew = leases.renew
    failures: list[DatabaseError] = []

    def sometimes(*arguments: Any) -> bool:
        if failures:
            raise failures.pop()
        return renew(*arguments)

    def is_made_good(ttl: float) -> bool:
        failures.append(DatabaseError("away", retryable=True))
        with held(store.try_lock("x", ttl, keep_alive=True)) as handle:
            time.sleep(2 * ttl)
            return not handle.lost

    monkeypatch.setattr(leases, "renew", sometimes)
    in_time(lambda: 0.0 if is_made_good(TTL) else TTL, TTL)
    assert not failures


def test_a_longer_renewal_of_ones_own_is_not_cut_short(store: PostgresStore) -> None:
    with held(store.try_lock("x", 3, keep_alive=True)) as handle:
        assert handle.renew(60)
        time.sleep(1.2)  # longer than a third of the TTL, after which it is renewed otherwise
        query = "SELECT extract(epoch FROM expires_at - clock_timestamp())::float8 FROM {}"
        with store.transaction() as tx:
            row = tx.execute(
                sql.SQL(query).format(sql.Identifier(store._parts.database.schema, "locks"))
            ).fetchone()
        assert row is not None
        assert row[0] > 50


def test_releasing_ends_the_thread(store: PostgresStore) -> None:
    handle = held(store.try_lock("x", 60, keep_alive=True))
    assert keepers()
    assert handle.release()
    wait_until(lambda: not keepers(), 1)
    assert not handle.lost


def test_closing_the_store_ends_the_thread(store: PostgresStore) -> None:
    handle = held(store.try_lock("x", 0.3, keep_alive=True))
    store.close()
    wait_until(lambda: not keepers(), 1)
    wait_until(lambda: handle.lost, 1)


def test_a_renewal_that_failed_is_tried_again_soon_however_long_the_lease(
    store: PostgresStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else a lock with a TTL of an hour would be six minutes late after an outage."""
    with held(store.try_lock("x", 3_600, keep_alive=True)) as handle:
        keeper = handle._keeper  # type: ignore[attr-defined]

        def away(*_args: object) -> bool:
            raise DatabaseError("away", retryable=True)

        keeper._certain_until -= 2_400 + 1  # it is time to renew
        with monkeypatch.context() as patch:
            patch.setattr(Leases, "renew", away)
            nap = keeper._turn()
        assert nap is not None
        assert nap <= 2.0
        assert not handle.lost
        assert keeper._turn() == pytest.approx(1_200, abs=30)
