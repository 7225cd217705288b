"""A signal whose handler closes the store, while the main thread leads.

The user's story: a script calls `store.run_schedules()` in its main thread, and its handler of
SIGTERM closes the store. The lease is given back at once: another process need not wait for it to
lapse.
"""

from __future__ import annotations

import subprocess
import sys
import textwrap

PROGRAM = """
    import faulthandler, signal, sys, threading
    from alkstore import StopToken, StoreClosed
    from alkstore.memory import ManualClock, MemoryStore
    from alkstore.memory import leader, leases

    faulthandler.dump_traceback_later(50, exit=True)  # this hangs when it is wrong
    FILES = {leader.__file__, leases.__file__}

    def attempt(number):
        # Close at the line of this number of a leader that has fired; return whether there was one.
        clock = ManualClock()
        store = MemoryStore(clock=clock)
        other = store.sibling()
        store.schedule("s", "@every 10s", "q", 1)
        stop = StopToken()
        lines = 0
        def close(*_):
            store.close()
        signal.signal(signal.SIGUSR1, close)
        def tracing(frame, event, _argument):
            nonlocal lines
            if frame.f_code.co_filename not in FILES:
                return None
            if event == "line" and other.data.locks:
                lines += 1
                if lines == number:
                    signal.raise_signal(signal.SIGUSR1)
                if lines == 200:
                    stop.cancel()
            return tracing
        # It turns again and again: each step of the clock wakes it.
        stepping = threading.Event()
        def step():
            while not stepping.wait(0.0005):
                clock.advance(1)
        stepper = threading.Thread(target=step)
        stepper.start()
        sys.settrace(tracing)
        try:
            store.run_schedules(stop)
        except StoreClosed:
            pass
        finally:
            sys.settrace(None)
            stepping.set()
            stepper.join()
        if lines < number:
            store.close()
            return False
        held = [row.owner for row in other.data.locks.values() if row.owner is not None]
        assert not held, number
        return True

    number = 1
    while number < 150 and attempt(number):
        number += 1
    print(number)
"""


def test_closing_a_store_in_a_signal_handler_gives_the_lease_back() -> None:
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(PROGRAM)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.stdout == "150\n", done.stderr
