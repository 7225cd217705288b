"""A look that fails, or is interrupted, costs no other waiter of the process its wake."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest

from alkstore import DatabaseError, StopToken
from alkstore.traits import Queue
from alkstore_postgres import PostgresStore
from alkstore_postgres.queue import claimer as module
from alkstore_postgres.queue.claim_places import ClaimPlaces, Place
from alkstore_postgres.queue.claimer import Claimer
from alkstore_postgres.wakes.hub import WakeHub
from tests.postgres.queue.test_waiting import Waiter
from tests.support.waiting import wait_until


@pytest.fixture(autouse=True)
def _no_poll(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_POLL", 600.0)


@pytest.fixture
def asleep(store: PostgresStore, monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """Return a function that waits until so many looks have found nothing."""
    looks = 0
    attempt = Claimer._try

    def counted(claimer: Claimer, claim: Any) -> Any:
        nonlocal looks
        found = attempt(claimer, claim)
        looks += not found[0]
        return found

    monkeypatch.setattr(Claimer, "_try", counted)
    store._parts.hub.attach("nothing", lambda _: None)
    assert store._parts.hub.settle(30)
    return lambda count: wait_until(lambda: looks >= count)


@pytest.mark.parametrize("failure", [DatabaseError("cut"), KeyboardInterrupt()])
def test_the_wake_of_one_whose_look_failed_goes_to_another(
    queue: Queue,
    asleep: Callable[[int], None],
    monkeypatch: pytest.MonkeyPatch,
    failure: BaseException,
) -> None:
    stop = StopToken()
    outcomes: list[object] = []

    def wait() -> None:
        try:
            outcomes.append([handle.payload for handle in queue.claim_wait("w", stop=stop)])
        except BaseException as error:  # noqa: BLE001 - compared below
            outcomes.append(error)

    threads = [threading.Thread(target=wait) for _ in range(2)]
    for thread in threads:
        thread.start()
    asleep(2)
    look = Claimer._look

    def failing(_: Claimer, __: Any) -> Any:
        monkeypatch.setattr(Claimer, "_look", look)
        raise failure

    monkeypatch.setattr(Claimer, "_look", failing)
    queue.enqueue("hello")
    try:
        wait_until(lambda: len(outcomes) == 2)
    finally:
        stop.cancel()
        for thread in threads:
            thread.join()
    assert failure in outcomes
    assert ["hello"] in outcomes


def test_one_that_is_interrupted_as_it_leaves_takes_no_wakes_any_more(
    store: PostgresStore, queue: Queue, monkeypatch: pytest.MonkeyPatch
) -> None:
    detach = WakeHub.detach

    def interrupted(*_: object) -> None:
        monkeypatch.setattr(WakeHub, "detach", detach)
        raise KeyboardInterrupt

    stop = StopToken()
    monkeypatch.setattr(WakeHub, "detach", interrupted)
    with pytest.raises(KeyboardInterrupt):
        queue.claim_wait("w", timeout=0, stop=stop)
    assert store._parts.hub.waiters.count(queue.name) == 0
    assert not stop._own.waiters


def test_a_place_that_another_thread_remembers_just_now_hides_no_job(
    store: PostgresStore,
    queue: Queue,
    asleep: Callable[[int], None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """There was none when this one asked, so it looks at everything."""
    asleep(0)
    job = queue.enqueue("hello")
    begin = ClaimPlaces.begin

    def late(places: ClaimPlaces, name: str, now: float) -> Place | None:
        monkeypatch.setattr(ClaimPlaces, "begin", begin)
        found = begin(places, name, now)
        assert found is None
        moment = store.get_job(job)
        assert moment is not None
        for _ in range(5):
            places.looked(name, now, 60.0, Place(0, moment.run_at, job), 1)
        return found

    monkeypatch.setattr(ClaimPlaces, "begin", late)
    (handle,) = Waiter(queue, timeout=600).result()
    assert handle.id == job
