"""Stop tokens (contract section 10): cancelled from anywhere, heard within 100 ms.

Signals are tested on real processes: one that bombards itself while its main thread is
inside the token's and the parker's own operations, and ones that get one signal or two.
"""

from __future__ import annotations

import gc
import math
import signal
import subprocess
import sys
import textwrap
import threading
import time
import weakref
from collections.abc import Callable

import pytest

from alkstore import InvalidOption, StopToken
from alkstore.stop_token import Parker

PROMPT = 0.1
"""Section 10: every blocking call returns within 100 ms of a cancellation."""


class Waker:
    """Counts its wakes."""

    def __init__(self) -> None:
        self.wakes = 0

    def unpark(self) -> None:
        self.wakes += 1


def start(target: Callable[[], object]) -> threading.Thread:
    thread = threading.Thread(target=target, daemon=True)
    thread.start()
    return thread


def waiters(token: StopToken) -> int:
    return len(token._own.waiters)


def until(happened: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 10
    while not happened():
        assert time.monotonic() < deadline
        time.sleep(0.001)


def run(script: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


# Cancelling


def test_a_token_starts_uncancelled() -> None:
    assert not StopToken().cancelled
    assert not StopToken().child().cancelled


def test_a_cancelled_token_stays_cancelled() -> None:
    token = StopToken()
    token.cancel()
    token.cancel()
    assert token.cancelled
    assert token.wait()
    assert token.wait(0)


def test_cancelling_is_a_no_op_the_second_time() -> None:
    token, waker = StopToken(), Waker()
    token.attach(waker)
    token.cancel()
    assert waker.wakes == 1
    token.detach(waker)
    token.cancel()
    assert waker.wakes == 1


def slowest_of_eight_waits(timeout: float | None) -> float:
    """Return how long after a cancellation the last of eight threads came back."""
    token = StopToken()
    returned: list[tuple[bool, float]] = []
    threads = [
        start(lambda: returned.append((token.wait(timeout), time.monotonic()))) for _ in range(8)
    ]
    until(lambda: waiters(token) == 8)
    cancelled_at = time.monotonic()
    start(token.cancel).join(5)
    for thread in threads:
        thread.join(5)
    assert [result for result, _ in returned] == [True] * 8
    assert waiters(token) == 0
    return max(at for _, at in returned) - cancelled_at


@pytest.mark.parametrize("timeout", [None, 60.0])
def test_a_wait_in_any_thread_returns_within_100_ms_of_the_cancellation(
    timeout: float | None,
) -> None:
    # The best of three: a busy machine may hold a thread back, and that is not the token's.
    assert min(slowest_of_eight_waits(timeout) for _ in range(3)) < PROMPT


def test_a_wait_that_is_not_cancelled_ends_on_time() -> None:
    token = StopToken()
    started = time.monotonic()
    assert token.wait(0.05) is False
    assert 0.05 <= time.monotonic() - started < 1
    assert token.wait(0) is False
    assert waiters(token) == 0


@pytest.mark.parametrize("timeout", [-1, math.nan, math.inf, True, "1"])
def test_a_time_limit_is_a_duration(timeout: float) -> None:
    token = StopToken()
    with pytest.raises(InvalidOption):
        token.wait(timeout)
    assert waiters(token) == 0


def test_many_threads_that_wait_and_cancel_at_once_all_come_back() -> None:
    for _ in range(200):
        token = StopToken()
        gate = threading.Barrier(6)

        def wait(token: StopToken = token, gate: threading.Barrier = gate) -> None:
            gate.wait(5)
            assert token.child().wait(30)

        def cancel(token: StopToken = token, gate: threading.Barrier = gate) -> None:
            gate.wait(5)
            token.cancel()

        threads = [start(wait) for _ in range(4)] + [start(cancel) for _ in range(2)]
        for thread in threads:
            thread.join(5)
            assert not thread.is_alive()
        assert waiters(token) == 0


# Children


def test_a_child_is_cancelled_with_its_parent_and_not_the_other_way() -> None:
    parent = StopToken()
    child, sibling = parent.child(), parent.child()
    grandchild = child.child()
    child.cancel()
    assert child.cancelled
    assert grandchild.cancelled
    assert not parent.cancelled
    assert not sibling.cancelled
    parent.cancel()
    assert sibling.cancelled


def test_a_child_of_a_cancelled_token_is_cancelled() -> None:
    parent = StopToken()
    parent.cancel()
    assert parent.child().cancelled
    assert parent.child().child().wait()


@pytest.mark.parametrize("level", [0, 1, 2])
def test_a_wait_on_a_grandchild_hears_every_level(level: int) -> None:
    top = StopToken()
    middle = top.child()
    lineage = (top, middle, middle.child())
    heard: list[bool] = []
    thread = start(lambda: heard.append(lineage[2].wait(60)))
    until(lambda: waiters(top) == 1)
    lineage[level].cancel()
    thread.join(PROMPT * 10)
    assert heard == [True]
    assert [waiters(token) for token in lineage] == [0, 0, 0]


def test_a_parent_does_not_keep_its_children_alive() -> None:
    parent = StopToken()
    child = parent.child()
    assert child.wait(0.001) is False
    gone = weakref.ref(child)
    del child
    gc.collect()
    assert gone() is None


# Attaching


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


# The parker


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


# Signals

BOMBARDMENT = """
    import signal, sys, threading, time
    from alkstore.stop_token import Parker, StopToken

    shots = 0
    interrupted = set()
    tokens, parkers = [StopToken()], [Parker()]

    def shoot(number, frame):
        # From inside whatever was interrupted: cancel, wake, attach, detach.
        global shots
        shots += 1
        if frame is not None:
            interrupted.add(frame.f_code.co_name)
        tokens[-1].cancel()
        parkers[-1].unpark()
        tokens[-1].attach(parkers[-1])
        tokens[-1].detach(parkers[-1])

    def other_thread():
        while True:
            tokens[-1].cancel()
            time.sleep(0.002)

    signal.signal(signal.SIGALRM, shoot)
    threading.Thread(target=other_thread, daemon=True).start()
    signal.setitimer(signal.ITIMER_REAL, 0.001, 0.0001)
    ends = time.monotonic() + 4
    turns = 0
    while time.monotonic() < ends:
        turns += 1
        parent = StopToken()
        child = parent.child()
        parker, other = Parker(), Parker()
        parkers.append(parker)
        tokens.append(child if turns % 2 else parent)
        child.attach(other)
        child.attach(parker)
        parker.unpark()
        parker.park(0.001)
        if turns % 3 == 0:
            child.cancel()
        elif turns % 3 == 1:
            parent.cancel()
        child.detach(parker)
        child.detach(other)
        # The next shot, or the other thread, ends it.
        assert child.wait(5), "a cancellation was lost"
        assert not parent._own.waiters and not child._own.waiters, "a waiter was left behind"
        del tokens[:-1], parkers[:-1]
    signal.setitimer(signal.ITIMER_REAL, 0)
    print("turns", turns, "shots", shots, sorted(interrupted), file=sys.stderr)
    assert shots > 1000 and turns > 100, (shots, turns)
    missed = {"cancel", "wait", "park", "attach", "detach", "unpark"} - interrupted
    assert not missed, missed
    print("survived")
"""


def test_a_signal_handler_may_cancel_whatever_it_interrupted() -> None:
    done = run(BOMBARDMENT)
    assert done.stdout == "survived\n", done.stderr


def test_a_signal_handler_may_cancel_while_the_main_thread_waits_without_a_limit() -> None:
    done = run(
        """
        import signal, time
        from alkstore import StopToken

        token = StopToken()
        at = []
        def handle(*_):
            at.append(time.monotonic())
            token.cancel()
        signal.signal(signal.SIGALRM, handle)
        signal.setitimer(signal.ITIMER_REAL, 0.05)
        assert token.child().wait()
        print(time.monotonic() - at[0] < 0.1)
        """
    )
    assert done.stdout == "True\n", done.stderr


def test_the_first_signal_cancels_and_the_second_has_its_former_effect() -> None:
    done = run(
        """
        import signal
        from alkstore import StopToken

        token = StopToken()
        token.on_signals()
        signal.raise_signal(signal.SIGINT)
        assert token.cancelled
        try:
            signal.raise_signal(signal.SIGINT)
        except KeyboardInterrupt:
            print("interrupted", flush=True)
        signal.raise_signal(signal.SIGTERM)
        print("not reached")
        """
    )
    assert done.stdout == "interrupted\n", done.stderr
    assert done.returncode == -signal.SIGTERM


def test_a_signal_that_arrives_during_the_first_ones_wakes_leaves_nobody_asleep() -> None:
    done = run(
        """
        import signal
        from alkstore import StopToken
        from alkstore.stop_token import Parker

        class Impatient:
            def unpark(self):
                if not self.again:
                    self.again = True
                    signal.raise_signal(signal.SIGINT)
            again = False

        token, parker = StopToken(), Parker()
        token.attach(Impatient())
        token.attach(parker)
        token.on_signals(signal.SIGINT)
        try:
            signal.raise_signal(signal.SIGINT)
        except KeyboardInterrupt:
            print(parker.park(0))
        """
    )
    assert done.stdout == "True\n", done.stderr


def test_an_ignored_signal_is_ignored_again_the_second_time() -> None:
    done = run(
        """
        import signal
        from alkstore import StopToken

        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        token = StopToken()
        token.on_signals(signal.SIGHUP)
        for _ in range(3):
            signal.raise_signal(signal.SIGHUP)
        print(token.cancelled)
        """
    )
    assert done.stdout == "True\n", done.stderr


def test_restoring_puts_the_former_handlers_back() -> None:
    done = run(
        """
        import signal
        from alkstore import StopToken

        mine = lambda *_: print("mine")
        signal.signal(signal.SIGTERM, mine)
        before = [signal.getsignal(n) for n in (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1)]
        token = StopToken()
        with token.on_signals(signal.SIGINT, signal.SIGTERM, signal.SIGUSR1, signal.SIGTERM) as r:
            assert signal.getsignal(signal.SIGTERM) is not mine
            signal.raise_signal(signal.SIGTERM)
            signal.raise_signal(signal.SIGTERM)
        r.restore()
        after = [signal.getsignal(n) for n in (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1)]
        print(token.cancelled, before == after)
        """
    )
    assert done.stdout == "mine\nTrue True\n", done.stderr


def test_registrations_may_be_nested() -> None:
    done = run(
        """
        import signal
        from alkstore import StopToken

        outer, inner = StopToken(), StopToken()
        with outer.on_signals(signal.SIGINT):
            with inner.on_signals(signal.SIGINT):
                signal.raise_signal(signal.SIGINT)
                assert inner.cancelled and not outer.cancelled
                signal.raise_signal(signal.SIGINT)
                assert outer.cancelled
        try:
            signal.raise_signal(signal.SIGINT)
        except KeyboardInterrupt:
            print("interrupted")
        """
    )
    assert done.stdout == "interrupted\n", done.stderr


def test_a_refused_registration_leaves_no_handler_behind() -> None:
    done = run(
        """
        import signal, threading
        from alkstore import StopToken

        former = signal.getsignal(signal.SIGINT)
        try:
            StopToken().on_signals(signal.SIGINT, signal.SIGKILL)
        except OSError:
            print(signal.getsignal(signal.SIGINT) is former)

        def elsewhere():
            try:
                StopToken().on_signals()
            except ValueError:
                print(signal.getsignal(signal.SIGINT) is former)
        thread = threading.Thread(target=elsewhere)
        thread.start()
        thread.join()
        """
    )
    assert done.stdout == "True\nTrue\n", done.stderr
