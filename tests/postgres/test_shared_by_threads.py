"""What threads share: a store that one closes, the sender of wakes, the handle of a lock."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest

from alkstore import StopToken, StoreClosed
from alkstore.names import SCHEDULER_LOCK
from alkstore_postgres import PostgresStore
from tests.support.waiting import wait_until


def test_close_lets_a_leader_give_the_lease_back(open_store: Callable[..., PostgresStore]) -> None:
    store, other = open_store(), open_store()
    raised: list[BaseException] = []

    def lead() -> None:
        with pytest.raises(StoreClosed) as caught:
            store.run_schedules(StopToken())
        raised.append(caught.value)

    leader = threading.Thread(target=lead)
    leader.start()
    wait_until(lambda: other._parts.leases.seconds_left(SCHEDULER_LOCK))
    store.close()
    leader.join(5)
    assert len(raised) == 1
    assert other._parts.leases.seconds_left(SCHEDULER_LOCK) == 0


def test_a_failure_of_any_kind_does_not_end_the_sending_of_wakes(
    store: PostgresStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The kind of field case B08."""
    sender, database = store._parts.sender, store._parts.database
    fetch_all, failed = database.fetch_all, threading.Event()

    def fail_once(*args: object, **options: object) -> list[Any]:
        if failed.is_set():
            return fetch_all(*args, **options)  # type: ignore[arg-type]
        failed.set()
        raise KeyError("injected")

    monkeypatch.setattr(database, "fetch_all", fail_once)
    sender.merged("first")
    assert failed.wait(5)
    with store.listen("second") as listener:
        sender.merged("second")
        assert listener.wait(5) is not None


def test_threads_that_share_a_lock_handle_do_not_get_in_each_others_way(
    store: PostgresStore,
) -> None:
    handle = store.try_lock("shared", 30, keep_alive=True)
    assert handle is not None
    answers: list[bool] = []

    def renew() -> None:
        answers.extend(handle.renew() for _ in range(100))

    threads = [threading.Thread(target=renew) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert answers == [True] * 300
    assert handle.release()
