"""Stop tokens and signals (contract section 10), on real processes.

One bombards itself while its main thread is inside the token's and the parker's own operations;
the others get one signal or two.
"""

from __future__ import annotations

import signal
import subprocess
import sys
import textwrap


def run(script: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


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

        at, took = [], []
        def handle(*_):
            at.append(time.monotonic())
            token.cancel()
        signal.signal(signal.SIGALRM, handle)
        for _ in range(5):
            token = StopToken()
            signal.setitimer(signal.ITIMER_REAL, 0.05)
            assert token.child().wait()
            took.append(time.monotonic() - at[-1])
        print(min(took) < 0.1)
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
