"""The random walk over wakes: sent, and heard by listeners."""

from __future__ import annotations

from functools import partial

from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from alkstore.traits import Listener, Store
from tests.support.two_engines import Pair
from tests.support.walk.choices import LOCKS, QUEUES, numbers, picks, stopped
from tests.support.walk.ears import PLAIN
from tests.support.walk.ground import Ground

channels = st.sampled_from(["news", "news", LOCKS[0], *QUEUES])


class WakeRules(Ground):
    """Wakes by hand. All others are compared wherever everything is: see `Ears`."""

    @rule(number=numbers, channel=channels)
    def notify(self, number: int, channel: str) -> None:
        self.engines.call(number, partial(_notify, channel=channel))

    @precondition(lambda self: self.open)
    @rule(number=numbers, pick=picks, names=st.lists(channels, min_size=1, max_size=3))
    def notify_in_a_transaction(self, number: int, pick: int, names: list[str]) -> None:
        _, tx = self.open[pick % len(self.open)]
        store = self.engines.stores[number]
        for name in names:
            self.engines.both(
                partial(store.memory.notify_tx, tx.memory, name),
                partial(store.postgres.notify_tx, tx.postgres, name),
            )

    @precondition(lambda self: len(self.listeners) < 3)
    @rule(number=numbers, names=st.just(["news", LOCKS[0]]) | st.lists(channels, min_size=1))
    def listen(self, number: int, names: list[str]) -> None:
        self.ears.compare()
        store = self.engines.stores[number]
        pair = Pair[Listener](store.memory.listen(*names), store.postgres.listen(*names))
        self.listeners.append((pair, self.ears.disturbances))

    @precondition(lambda self: self.listeners)
    @rule(
        number=numbers,
        sent=st.lists(channels, min_size=2, max_size=4),
        pick=picks,
        stop=st.booleans(),
        close=st.booleans(),
    )
    def hear(self, *, number: int, sent: list[str], pick: int, stop: bool, close: bool) -> None:
        """Take all that has come, and perhaps hear no more."""
        pair, disturbances = self.listeners.pop(pick % len(self.listeners))
        for channel in sent:
            self.engines.call(number, partial(_notify, channel=channel))
        self.ears.compare()
        if stop:
            self.engines.on(pair, lambda listener: listener.wait(stop=stopped()))
        heard = Pair(_all_of(pair.memory), _all_of(pair.postgres))
        if self.ears.disturbances == disturbances:
            self.engines.both(lambda: heard.memory, lambda: heard.postgres)
        if close:
            self.engines.on(pair, lambda listener: listener.close())
            self.engines.on(pair, list)
        else:
            self.listeners.append((pair, self.ears.disturbances))


def _notify(store: Store, *, channel: str) -> None:
    store.notify(channel)


def _all_of(listener: Listener) -> list[str]:
    """Take what has come, the longest ago first; of queues some may come later."""
    heard: list[str] = []
    while (wake := listener.wait(0)) is not None:
        heard.append(wake.channel)
    return [name for name in heard if name in PLAIN]
