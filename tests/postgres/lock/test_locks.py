"""Section 6 of the contract: locks as an application uses them."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import psycopg
import pytest
from psycopg import sql

from alkstore import (
    InvalidName,
    InvalidOption,
    LockHandle,
    LockTimeout,
    ReservedName,
    StopToken,
    StoreClosed,
)
from alkstore_postgres.lock import locks
from alkstore_postgres.store import PostgresStore
from tests.support.cursors import around_statements
from tests.support.handles import held, is_lost
from tests.support.timing import Stopwatch, in_time
from tests.support.waiting import wait_until

OpenStore = Callable[..., PostgresStore]

NAMES = ["x", "n" * 63, "n" * 64, "n" * 200, "漢" * 66, "🐘🔒", "a'b\"; drop", "%s {0} \\", "A b"]


@pytest.fixture
def _no_poll(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let whoever waits look again for a reason only: what ends a wait has woken it."""
    monkeypatch.setattr(locks, "POLL", 600.0)


@pytest.fixture
def _no_round_trip(store: PostgresStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fail the test when the store sends anything from now on."""

    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("a statement was sent")

    around_statements(monkeypatch, lambda _: refuse)


def waiting_for(
    store: PostgresStore, name: str, **options: Any
) -> tuple[threading.Thread, list[LockHandle | BaseException]]:
    """Start a thread that waits for a lock, and return once it waits."""
    outcome: list[LockHandle | BaseException] = []

    def wait() -> None:
        try:
            outcome.append(store.lock(name, 60, **options))
        except BaseException as error:  # noqa: BLE001 - the outcome, whatever it is
            outcome.append(error)

    thread = threading.Thread(target=wait)
    thread.start()
    hub = store._parts.hub
    wait_until(lambda: outcome or (hub.state == "listening" and hub.waiters._sinks.get(name)))
    return thread, outcome


def test_a_lock_is_held_by_one_until_it_is_released(store: PostgresStore) -> None:
    handle = held(store.try_lock("x", 60))
    assert store.try_lock("x", 60) is None
    assert handle.release()
    assert held(store.try_lock("x", timedelta(minutes=1))).token > handle.token


def test_the_default_owner_is_unique_per_handle(store: PostgresStore) -> None:
    handles = [held(store.try_lock(f"x{number}", 60)) for number in range(20)]
    assert len({handle.owner for handle in handles}) == 20
    assert held(store.try_lock("y", 60, "me")).owner == "me"


def test_a_lapsed_lease_is_free_for_all(store: PostgresStore, lapse: Callable[[str], None]) -> None:
    first = held(store.try_lock("x", 60))
    lapse("x")
    second = held(store.try_lock("x", 60))
    assert not is_lost(first)  # it has not asked yet
    assert not first.renew()
    assert is_lost(first)
    assert not first.release()
    assert not second.lost
    assert second.renew()


def test_a_lease_ends_by_itself(store: PostgresStore) -> None:
    """Field case B64: free after its TTL, never longer."""

    def wait_for_its_end() -> float:
        first = held(store.try_lock("x", 0.4))
        ends = times(store)[1]
        second = store.lock("x", 60, timeout=20)
        taken = times(store)[0]
        assert taken >= ends
        assert not first.renew()
        assert second.release()
        return (taken - ends).total_seconds()

    in_time(wait_for_its_end, 0.6)


def times(store: PostgresStore) -> tuple[datetime, datetime]:
    """Return when the only lock was taken, and when its lease ends, on the store clock."""
    table = sql.Identifier(store._parts.database.schema, "locks")
    query = sql.SQL("SELECT acquired_at, expires_at FROM {}").format(table)
    with store.transaction() as own:
        row = own.execute(query).fetchone()
    assert row is not None
    taken, ends = row
    return taken, ends


def test_a_released_handle_does_nothing_more(store: PostgresStore) -> None:
    handle = held(store.try_lock("x", 60))
    assert handle.release()
    other = held(store.try_lock("x", 60))
    assert not handle.release()
    assert not handle.renew()
    assert not handle.lost
    assert other.renew()


def test_renew_takes_a_ttl_of_its_own(store: PostgresStore) -> None:
    handle = held(store.try_lock("x", 60))
    assert handle.renew(0.05)
    time.sleep(0.1)
    assert handle.renew()
    assert handle.renew(timedelta(hours=1))
    assert store.try_lock("x", 60) is None


def test_a_handle_releases_on_exit_also_after_an_exception(store: PostgresStore) -> None:
    with store.lock("x", 60):
        assert store.try_lock("x", 60) is None
    with pytest.raises(ZeroDivisionError), held(store.try_lock("x", 60)):
        raise ZeroDivisionError
    assert store.try_lock("x", 60) is not None


def test_leaving_a_lost_lock_raises_nothing_and_frees_nothing(
    store: PostgresStore, lapse: Callable[[str], None]
) -> None:
    with held(store.try_lock("x", 60)) as handle:
        lapse("x")
        other = held(store.try_lock("x", 60))
    assert handle.lost
    assert other.renew()


def test_leaving_a_lock_with_the_store_closed_raises_nothing(store: PostgresStore) -> None:
    with held(store.try_lock("x", 60)) as handle:
        store.close()
    with pytest.raises(StoreClosed):
        handle.release()


@pytest.mark.usefixtures("_no_poll")
@pytest.mark.parametrize("name", NAMES)
def test_any_name_within_the_limits_works(store: PostgresStore, name: str) -> None:
    """Field case B75."""
    handle = held(store.try_lock(name, 60))
    assert handle.name == name
    thread, outcome = waiting_for(store, name)
    assert handle.release()
    thread.join(30)
    assert not isinstance(outcome[0], BaseException)


def test_names_that_share_their_first_63_bytes_are_two_locks(store: PostgresStore) -> None:
    held(store.try_lock("n" * 63 + "a", 60))
    held(store.try_lock("n" * 63 + "b", 60))


@pytest.mark.usefixtures("_no_round_trip")
@pytest.mark.parametrize("name", ["", "n" * 201, "a\0b", "a\nb", "\ud800", 7, None, b"x"])
def test_a_bad_name_is_refused_before_any_round_trip(store: PostgresStore, name: Any) -> None:
    with pytest.raises(InvalidName):
        store.try_lock(name, 60)
    with pytest.raises(InvalidName):
        store.lock(name, 60)


def test_a_reserved_name_is_refused(store: PostgresStore) -> None:
    for name in ("__alkstore_scheduler", "__alkstore_x"):
        with pytest.raises(ReservedName):
            store.try_lock(name, 60)
        with pytest.raises(ReservedName):
            store.lock(name, 60)


@pytest.mark.usefixtures("_no_round_trip")
@pytest.mark.parametrize("ttl", [0, -1, float("nan"), float("inf"), "60", None, True, 10**400])
def test_a_bad_ttl_is_refused_before_any_round_trip(store: PostgresStore, ttl: Any) -> None:
    with pytest.raises(InvalidOption):
        store.try_lock("x", ttl)
    with pytest.raises(InvalidOption):
        store.lock("x", ttl)


@pytest.mark.parametrize("ttl", [0, -1, float("nan"), float("inf"), "60", True])
def test_a_renewal_refuses_a_bad_ttl_and_changes_nothing(store: PostgresStore, ttl: Any) -> None:
    handle = held(store.try_lock("x", 60))
    with pytest.raises(InvalidOption):
        handle.renew(ttl)
    assert store.try_lock("x", 60) is None


@pytest.mark.usefixtures("_no_round_trip")
@pytest.mark.parametrize("owner", ["", "a\0b", "\ud800", 7, b"me", "n" * 201])
def test_a_bad_owner_is_refused_before_any_round_trip(store: PostgresStore, owner: Any) -> None:
    with pytest.raises(InvalidOption):
        store.try_lock("x", 60, owner)


@pytest.mark.usefixtures("_no_round_trip")
@pytest.mark.parametrize("timeout", [-1, float("nan"), "5"])
def test_a_bad_timeout_is_refused_before_any_round_trip(store: PostgresStore, timeout: Any) -> None:
    with pytest.raises(InvalidOption):
        store.lock("x", 60, timeout)


def wait_for_a_release(holder: PostgresStore, waiter: PostgresStore) -> float:
    """Have *waiter* get the lock that *holder* releases; return how long that took."""
    handle = held(holder.try_lock("x", 60))
    thread, outcome = waiting_for(waiter, "x")
    began = time.monotonic()
    handle.release()
    thread.join(30)
    took = time.monotonic() - began
    (found,) = outcome
    assert not isinstance(found, BaseException)
    assert found.token > handle.token
    assert found.release()
    return took


@pytest.mark.usefixtures("_no_poll")
def test_a_waiter_is_woken_by_a_release(store: PostgresStore) -> None:
    in_time(lambda: wait_for_a_release(store, store), 0.5)


@pytest.mark.usefixtures("_no_poll")
def test_a_waiter_hears_a_release_from_another_store(open_store: OpenStore) -> None:
    holder, waiter = open_store(), open_store()
    in_time(lambda: wait_for_a_release(holder, waiter), 0.5)


@pytest.mark.parametrize("limit", [0, 0.3, timedelta(milliseconds=300)])
def test_a_waiter_gives_up_at_its_time_limit(store: PostgresStore, limit: Any) -> None:
    held(store.try_lock("x", 60))

    def wait_in_vain() -> float:
        began = time.monotonic()
        with pytest.raises(LockTimeout):
            store.lock("x", 60, timeout=limit)
        return time.monotonic() - began

    in_time(wait_in_vain, 0.8)


def test_a_free_lock_is_taken_with_a_time_limit_of_nothing(store: PostgresStore) -> None:
    assert store.lock("x", 60, timeout=0).renew()
    assert store._parts.hub.state == "idle"  # no listener for what needs no waiting


def test_a_waiter_returns_within_100_ms_of_its_cancellation(store: PostgresStore) -> None:
    held(store.try_lock("x", 60))

    def cancel_a_wait() -> float:
        stop = StopToken()
        thread, outcome = waiting_for(store, "x", stop=stop.child())
        began = time.monotonic()
        stop.cancel()
        thread.join(30)
        took = time.monotonic() - began
        assert isinstance(outcome[0], LockTimeout)
        return took

    in_time(cancel_a_wait, 0.1)


def test_a_cancelled_token_takes_no_lock(store: PostgresStore) -> None:
    stop = StopToken()
    stop.cancel()
    with pytest.raises(LockTimeout):
        store.lock("x", 60, stop=stop)
    assert store.try_lock("x", 60) is not None


@pytest.mark.usefixtures("_no_poll")
def test_closing_the_store_ends_a_wait(store: PostgresStore) -> None:
    held(store.try_lock("x", 60))
    thread, outcome = waiting_for(store, "x")
    store.close()
    thread.join(30)
    assert isinstance(outcome[0], StoreClosed)


def test_a_waiter_that_hears_nothing_polls(
    store: PostgresStore, connection: psycopg.Connection[Any], schema: str
) -> None:
    """A lock that is freed without a wake is noticed within 5 s."""
    held(store.try_lock("x", 60))
    thread, outcome = waiting_for(store, "x")
    table = sql.Identifier(schema, "locks")
    connection.execute(sql.SQL("UPDATE {} SET owner = NULL").format(table))
    with Stopwatch() as watch:
        thread.join(30)
    assert watch.seconds < 5.5
    assert not isinstance(outcome[0], BaseException)


def test_a_herd_of_waiters_all_get_their_turn(store: PostgresStore) -> None:
    inside = threading.Lock()
    turns = []

    def take() -> None:
        for _ in range(3):
            with store.lock("x", 60, timeout=60) as handle:
                assert inside.acquire(blocking=False)
                turns.append(handle.token)
                inside.release()

    threads = [threading.Thread(target=take) for _ in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert len(turns) == 36
    assert turns == sorted(set(turns))


def test_no_session_advisory_lock_is_held_by_a_lock(
    store: PostgresStore, connection: psycopg.Connection[Any]
) -> None:
    """Field case B117."""
    with store.lock("x", 60, keep_alive=True):
        query = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'"
        assert connection.execute(query).fetchone() == (0,)
