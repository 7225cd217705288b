"""Locks that are kept: renewed from a thread that tells the body when the lock was lost."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from psycopg import sql

from alkstore import DatabaseError
from alkstore_postgres.lock.leases import Leases
from alkstore_postgres.store import PostgresStore
from tests.support.handles import held, is_lost
from tests.support.waiting import wait_until


def keepers() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name.startswith("alkstore-lock")]


@pytest.fixture(autouse=True)
def _no_thread_stays() -> Iterator[None]:
    yield
    wait_until(lambda: not keepers())


def test_a_kept_lock_outlives_its_ttl(store: PostgresStore) -> None:
    with held(store.try_lock("x", 0.5, keep_alive=True)) as handle:
        until = time.monotonic() + 1.6
        while time.monotonic() < until:
            assert store.try_lock("x", 60) is None
            assert not handle.lost
            time.sleep(0.05)
    assert store.try_lock("x", 60) is not None


def test_the_body_is_told_when_another_took_it(
    store: PostgresStore, lapse: Callable[[str], None]
) -> None:
    with held(store.try_lock("x", 0.9, keep_alive=True)) as handle:
        lapse("x")
        other = held(store.try_lock("x", 60))
        wait_until(lambda: handle.lost, 0.9)
        assert not handle.renew()
    assert other.renew()


def test_the_body_is_told_when_no_renewal_succeeded_for_a_ttl(
    store: PostgresStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> bool:
        raise DatabaseError("away", retryable=True)

    began = time.monotonic()
    handle = held(store.try_lock("x", 0.6, keep_alive=True))
    monkeypatch.setattr(store._parts.leases, "renew", fail)
    assert not is_lost(handle)
    wait_until(lambda: handle.lost, 2)
    assert time.monotonic() - began < 0.8
    monkeypatch.undo()
    assert not handle.renew()  # what was told stays told
    assert is_lost(handle)
    assert handle.release()  # the row was still its own


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
    failures = [DatabaseError("away", retryable=True)]

    def sometimes(*arguments: Any) -> bool:
        if failures:
            raise failures.pop()
        return renew(*arguments)

    monkeypatch.setattr(leases, "renew", sometimes)
    with held(store.try_lock("x", 0.6, keep_alive=True)) as handle:
        time.sleep(1.2)
        assert not handle.lost
    assert not failures


def test_a_longer_renewal_of_ones_own_is_not_cut_short(store: PostgresStore) -> None:
    with held(store.try_lock("x", 0.3, keep_alive=True)) as handle:
        assert handle.renew(60)
        time.sleep(0.4)
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
