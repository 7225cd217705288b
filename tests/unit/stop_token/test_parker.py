"""The parker: a wake ends a sleep, and is remembered when nobody sleeps yet."""

from __future__ import annotations

from alkstore.stop_token import Parker
from tests.support.stop_tokens import start


def test_a_wake_is_remembered_once() -> None:
    parker = Parker()
    parker.unpark()
    parker.unpark()
    assert parker.park(60)
    assert not parker.park(0)
    assert not parker.park(-1)
    assert not parker.park(0.01)


def test_a_wake_ends_a_sleep_without_a_limit() -> None:
    parker = Parker()
    thread = start(parker.park)
    parker.unpark()
    thread.join(5)
    assert not thread.is_alive()
