"""Uses of wakes and stop tokens that every type checker must accept. Checked, never run."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import closing
from datetime import timedelta

from typing_extensions import assert_type

from alkstore import Listener, SignalRegistration, StopToken, Store, Wake


def sending(store: Store) -> None:
    """A wake is sent to a name."""
    store.notify("news")


def hearing(store: Store, stop: StopToken) -> Iterator[Wake]:
    """A listener is a context manager, closable, and iterable."""
    with store.listen("news", "sport") as listener:
        assert_type(listener, Listener)
        for wake in listener:
            assert_type(wake, Wake)
        yield from listener
    with closing(store.listen("news")) as another:
        assert_type(another, Listener)
        another.wait(stop=stop)


def waiting_for_a_wake(listener: Listener, stop: StopToken) -> None:
    """There may be none."""
    assert_type(listener.wait(), Wake | None)
    assert_type(listener.wait(5), Wake | None)
    assert_type(listener.wait(timedelta(seconds=1), stop), Wake | None)
    assert_type(listener.wait(timeout=0.5, stop=None), Wake | None)
    listener.close()


def a_wake(wake: Wake) -> None:
    """It is its channel, and nothing else."""
    assert_type(wake.channel, str)
    assert_type(Wake("news"), Wake)


class Sleeper:
    """Whatever can be woken by a token."""

    def unpark(self) -> None:
        """Wake up."""


def tokens(stop: StopToken) -> None:
    """A token is cancelled, waited for, and has children."""
    assert_type(StopToken(), StopToken)
    assert_type(StopToken(parent=stop), StopToken)
    stop.cancel()
    assert_type(stop.cancelled, bool)
    assert_type(stop.wait(), bool)
    assert_type(stop.wait(timeout=0.5), bool)
    assert_type(stop.child(), StopToken)
    sleeper = Sleeper()
    stop.attach(sleeper)
    stop.detach(sleeper)


def signals(stop: StopToken, registered: SignalRegistration) -> None:
    """A token hears of signals until they are restored."""
    assert_type(stop.on_signals(), SignalRegistration)
    with stop.on_signals(signal.SIGINT, signal.SIGTERM) as registration:
        assert_type(registration, SignalRegistration)
    registered.restore()
