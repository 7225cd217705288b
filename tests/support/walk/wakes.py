"""The random walk over wakes: sent, and heard by listeners."""

from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from alkstore.traits import Listener
from tests.support.two_engines import Pair
from tests.support.walk.choices import LOCKS, QUEUES, numbers, picks, stopped
from tests.support.walk.ears import PLAIN
from tests.support.walk.ground import Ground

channels = st.sampled_from(["news", "news", LOCKS[0], *QUEUES])


class WakeRules(Ground):
    """Wakes by hand. All others are compared wherever everything is: see `Ears`."""

    @rule(number=numbers, channel=channels)
    def notify(self, number: int, channel: str) -> None:
        self.engines.call(number, lambda store: store.notify(channel))

    @precondition(lambda self: self.open)
    @rule(number=numbers, pick=picks, names=st.lists(channels, min_size=1, max_size=3))
    def notify_in_a_transaction(self, number: int, pick: int, names: list[str]) -> None:
        _, tx = self.open[pick % len(self.open)]
        store = self.engines.stores[number]
        for name in names:
            self.engines.both(
                lambda name=name: store.memory.notify_tx(tx.memory, name),
                lambda name=name: store.postgres.notify_tx(tx.postgres, name),
            )

    @precondition(lambda self: len(self.listeners) < 3)
    @rule(number=numbers, names=st.lists(channels, min_size=1, max_size=4))
    def listen(self, number: int, names: list[str]) -> None:
        self.ears.compare()
        store = self.engines.stores[number]
        pair = Pair[Listener](store.memory.listen(*names), store.postgres.listen(*names))
        self.listeners.append((pair, self.ears.disturbances))

    @precondition(lambda self: self.listeners)
    @rule(pick=picks, stop=st.booleans(), close=st.booleans())
    def hear(self, pick: int, stop: bool, close: bool) -> None:
        """Take all that has come, and perhaps hear no more."""
        at = pick % len(self.listeners)
        pair, disturbances = self.listeners.pop(at)
        self.ears.compare()
        if stop:
            self.engines.on(pair, lambda listener: listener.wait(stop=stopped()))
        heard = Pair(_all_of(pair.memory), _all_of(pair.postgres))
        if self.ears.disturbances == disturbances:
            assert heard.memory == heard.postgres
        if close:
            self.engines.on(pair, lambda listener: [listener.close(), list(listener)])
        else:
            self.listeners.append((pair, self.ears.disturbances))


def _all_of(listener: Listener) -> list[str]:
    """Take what has come, the longest ago first; of queues some may come later."""
    heard: list[str] = []
    while (wake := listener.wait(0)) is not None:
        heard.append(wake.channel)
    return [name for name in heard if name in PLAIN]
