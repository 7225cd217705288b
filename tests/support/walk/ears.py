"""What is heard of both engines' wakes, compared when it is certain to have arrived."""

from __future__ import annotations

import threading
from collections.abc import Iterable

from alkstore.memory import MemoryData
from alkstore.names import SCHEDULER_LOCK, outbox_queue
from alkstore_postgres import PostgresStore
from tests.support.two_engines import Disagreement
from tests.support.walk.choices import LOCKS, OUTBOXES, QUEUES

PLAIN = ["news", LOCKS[0], SCHEDULER_LOCK]
"""Channels of which every wake is sent in the call itself."""

MERGED = [*QUEUES, *map(outbox_queue, OUTBOXES)]
"""Channels whose wakes may be merged in time: other processes hear some of them later."""

_SILENT = "never woken"
"""Heard only when everybody is woken: the line was lost, or too much came at once."""

_LIMIT = 30.0


class Ears:
    """Hears all of both engines.

    A wake of PostgreSQL arrives some time after its call. Wakes arrive in the order of their
    commits: once a later one is there, all are.

    Args:
        data: The tables of the memory engine.
        stores: The stores of the other one.

    Attributes:
        disturbances: How often everybody was woken without being meant.
    """

    def __init__(self, data: MemoryData, stores: Iterable[PostgresStore]) -> None:
        self._data = data
        self._memory: list[str] = []
        for name in (*PLAIN, *MERGED):
            data.wakes.attach(name, self, self._memory.append)
        self._postgres = [_Ear(store) for store in stores]
        self._marks = 0
        self.disturbances = 0
        self.forget()

    def forget(self) -> None:
        """Forget what was heard up to now."""
        self._prove()
        self._take()

    def compare(self) -> None:
        """Compare what was heard since the last time."""
        self._prove()
        memory, heard = self._take()
        if any(_SILENT in names for names in heard):
            self.disturbances += 1
            self.forget()
            return
        plain = [_once(names, PLAIN) for names in (memory, *heard)]
        together = {name for names in heard for name in names}
        differences = [
            *(f"memory {plain[0]}, postgres {one}" for one in plain[1:] if one != plain[0]),
            # The store that has done it tells its own listeners at once.
            *(f"nobody heard {one!r}" for one in _once(memory, MERGED) if one not in together),
        ]
        if differences:
            raise Disagreement("\n".join(differences))

    def replace(self, number: int, store: PostgresStore) -> None:
        """Hear *store* in the place of one that was closed."""
        self._postgres[number].detach()
        self._postgres[number] = _Ear(store)
        self.forget()

    def close(self) -> None:
        """Hear nothing any more."""
        for name in (*PLAIN, *MERGED):
            self._data.wakes.detach(name, self)
        for ear in self._postgres:
            ear.detach()

    def _prove(self) -> None:
        """Wait until all that was sent has arrived."""
        self._marks += 1
        mark = f"mark {self._marks}"
        arrived = [ear.expect(mark) for ear in self._postgres]
        self._postgres[0].store.notify(mark)
        for event in arrived:
            assert event.wait(_LIMIT), "a wake has not arrived"
        for ear in self._postgres:
            ear.expect_no_more(mark)

    def _take(self) -> tuple[list[str], list[list[str]]]:
        return _cut(self._memory), [_cut(ear.heard) for ear in self._postgres]


class _Ear:
    """What the hub of a store passes on; the listening thread adds to it."""

    def __init__(self, store: PostgresStore) -> None:
        self.store = store
        self.heard: list[str] = []
        self._hub = store._parts.hub
        self._mark = threading.Event()
        # The silent one first: whoever wakes everybody begins with it.
        for name in (_SILENT, *PLAIN, *MERGED):
            self._hub.attach(name, self._hear)
        assert self._hub.settle(_LIMIT)

    def detach(self) -> None:
        for name in (_SILENT, *PLAIN, *MERGED):
            self._hub.detach(name, self._hear)

    def expect(self, mark: str) -> threading.Event:
        self._mark = threading.Event()
        self._hub.attach(mark, self._set)
        return self._mark

    def expect_no_more(self, mark: str) -> None:
        self._hub.detach(mark, self._set)

    def _hear(self, name: str) -> None:
        self.heard.append(name)

    def _set(self, _mark: str) -> None:
        self._mark.set()


def _cut(names: list[str]) -> list[str]:
    """Take what is in a list that another thread may add to."""
    taken = names.copy()
    del names[: len(taken)]
    return taken


def _once(names: list[str], among: list[str]) -> list[str]:
    """Return those that are *among* others, each once."""
    return [name for name in dict.fromkeys(names) if name in among]
