"""Who has attached to a stop token is woken, who has left it is not kept."""

from __future__ import annotations

import pytest

from alkstore import StopToken
from alkstore.stop_token import Parker
from tests.support.stop_tokens import Waker, waiters


def test_attaching_after_the_cancellation_wakes_at_once() -> None:
    for depth in (0, 1, 2):
        top = token = StopToken()
        for _ in range(depth):
            token = token.child()
        top.cancel()
        waker = Waker()
        token.attach(waker)
        assert waker.wakes == 1


def test_who_has_detached_is_not_woken_and_not_kept() -> None:
    token = StopToken()
    child = token.child()
    waker = Waker()
    child.attach(waker)
    child.attach(waker)
    child.detach(waker)
    child.detach(waker)
    token.cancel()
    child.cancel()
    assert waker.wakes == 0
    assert waiters(token) == waiters(child) == 0


def test_detaching_who_never_attached_does_nothing() -> None:
    StopToken().child().detach(Waker())


def test_one_waiter_on_a_token_and_on_its_parent_may_leave_either() -> None:
    parent = StopToken()
    child = parent.child()
    waker = Waker()
    parent.attach(waker)
    child.attach(waker)
    child.detach(waker)
    parent.cancel()
    assert waker.wakes == 1
    parent.detach(waker)
    assert waiters(parent) == waiters(child) == 0


class Interrupt(Exception):
    """Raised by a waiter's environment, as a signal handler does."""


def test_a_wait_that_is_interrupted_leaves_no_waiter_behind(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    token = StopToken()
    child = token.child()
    attach = StopToken.attach

    def interrupted_park(self: Parker, timeout: float | None = None) -> bool:
        raise Interrupt

    def interrupted_attach(self: StopToken, waiter: Parker) -> None:
        attach(self, waiter)
        raise Interrupt

    for owner, name, interrupted in (
        (Parker, "park", interrupted_park),
        (StopToken, "attach", interrupted_attach),
    ):
        monkeypatch.setattr(owner, name, interrupted)
        with pytest.raises(Interrupt):
            child.wait(1)
        assert waiters(token) == waiters(child) == 0
