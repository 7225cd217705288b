"""A handler's thread that has died all the same: another one takes its place."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator

import pytest

from alkstore.memory import MemoryStore, access
from alkstore.runners import claims as books
from alkstore.runners import pool
from alkstore.runners.claims import Claims, Seat
from alkstore.runners.crew import Crew
from alkstore.runners.held import Held
from alkstore.runners.supervisor import Supervisor
from tests.support.waiting import wait_until


class Dying(BaseException):
    """What ends a thread."""


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> Iterator[MemoryStore]:
    """Return a store; a handler's thread of its runners ends at a `Dying`."""
    supervise = Supervisor._supervise

    def supervise_mortals(runner: Supervisor, part: str, body: Callable[[], None]) -> None:
        if not part.startswith("handler"):
            supervise(runner, part, body)
            return
        with contextlib.suppress(Dying):
            body()

    monkeypatch.setattr(Supervisor, "_supervise", supervise_mortals)
    with MemoryStore() as store:
        yield store


@pytest.mark.parametrize("begun", [False, True], ids=["with a job in its hand", "amid a job"])
@pytest.mark.parametrize("concurrency", [1, 2])
def test_another_thread_does_its_job_and_those_behind_it(
    store: MemoryStore, monkeypatch: pytest.MonkeyPatch, concurrency: int, begun: bool
) -> None:
    monkeypatch.setattr(access, "POLL", 0.2)
    monkeypatch.setattr(pool, "_LOOK_UP", 0.2)
    monkeypatch.setattr(books, "_LOST_AFTER", 0.5)
    begin: Callable[[Claims, Held, Seat], bool] = Claims._begin
    deadly = ["the first"]

    def begin_or_die(claims: Claims, held: Held, seat: Seat) -> bool:
        dies = held.handle.payload in deadly
        began = begun and dies and begin(claims, held, seat)
        if dies:
            deadly.clear()
            raise Dying(began)
        return begin(claims, held, seat)

    monkeypatch.setattr(Claims, "_begin", begin_or_die)
    done: set[object] = set()
    queue = store.queue("emails", visibility_timeout=3600)
    queue.enqueue("the first")
    worker = store.start_worker("emails", lambda job: done.add(job.payload), concurrency)
    wait_until(lambda: not deadly)
    queue.enqueue_many(["second", "third"])
    wait_until(lambda: done == {"the first", "second", "third"})
    wait_until(lambda: worker.health().healthy)
    wait_until(lambda: worker.health().details["in_hand"] == 0)
    assert worker.state == "working"
    assert worker.stop(5)


class Trades:
    """Threads of a crew, which end when they are told to."""

    def __init__(self) -> None:
        self.ends: dict[str, threading.Event] = {}
        self.seats: list[Seat] = []
        self.crew = Crew()

    def start(self, part: str, seat: Seat) -> threading.Thread:
        end = self.ends[part] = threading.Event()
        self.seats.append(seat)
        thread = threading.Thread(target=end.wait, args=(60,), daemon=True)
        thread.start()
        return thread

    def end(self, part: str) -> None:
        """End a thread."""
        self.ends[part].set()
        wait_until(lambda: sum(one.is_alive() for one in self.crew.threads()) < len(self.crew))


def test_a_crew_counts_who_lives_and_fills_the_places_of_the_dead() -> None:
    trades = Trades()
    crew = trades.crew
    crew.grow(3, trades.start)
    crew.grow(2, trades.start)
    assert (len(crew), crew.dead(), len(trades.seats)) == (3, [], 3)
    trades.end("handler 2")
    ((place, thread),) = crew.dead()
    assert (place.part, place.seat, thread.is_alive()) == ("handler 2", trades.seats[1], False)
    crew.strike_off(place)
    assert (len(crew), len(crew.threads()), crew.dead()) == (2, 2, [])
    crew.grow(3, trades.start)
    assert (len(crew), list(trades.ends)) == (3, ["handler 1", "handler 2", "handler 3"])
    assert len(set(map(id, trades.seats))) == 4, "nobody sits where a dead one has sat"
    for part in trades.ends:
        trades.end(part)
