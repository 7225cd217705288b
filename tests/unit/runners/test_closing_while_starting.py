"""A signal whose handler closes the store, while the main thread starts a runner of it.

The user's story: SIGTERM comes while a service boots, and its handler calls `store.close()`. It
comes at each line of the machine in turn, in a real process: neither waits for the other, and
whatever was started ends.
"""

from __future__ import annotations

import subprocess
import sys
import textwrap

import pytest

PROGRAM = """
    import faulthandler, os, signal, sys, threading, time
    from alkstore import StoreClosed
    from alkstore.memory import MemoryStore
    from alkstore.runners import pool, started, supervisor, threads, worker

    faulthandler.dump_traceback_later(50, exit=True)  # this hangs when it is wrong
    FILES = {one.__file__ for one in (pool, started, supervisor, threads, worker)}
    KIND = sys.argv[1]

    def start(store):
        if KIND == "scheduler":
            return store.start_scheduler()
        if KIND == "outbox":
            return store.start_outbox("events", print)
        return store.start_worker("emails", print)

    def ours():
        return [one for one in threading.enumerate() if one.name.startswith("alkstore ")]

    def attempt(number):
        # Close at the line of this number; return whether there was one.
        store = MemoryStore()
        lines = 0
        slow = []
        def close(*_):
            began = time.monotonic()
            store.close()
            slow.append(time.monotonic() - began)
        signal.signal(signal.SIGUSR1, close)
        def tracing(frame, event, _argument):
            nonlocal lines
            if frame.f_code.co_filename not in FILES:
                return None
            if event == "line":
                lines += 1
                if lines == number:
                    signal.raise_signal(signal.SIGUSR1)
            return tracing
        sys.settrace(tracing)
        try:
            runner = start(store)
        except StoreClosed:
            runner = None
        finally:
            sys.settrace(None)
        if lines < number:
            store.close()
            return False
        assert slow and slow[0] < 2, (number, slow)
        assert runner is None or runner.state == "stopped", (number, runner)
        deadline = time.monotonic() + 5
        while ours():
            assert time.monotonic() < deadline, (number, ours())
            time.sleep(0.001)
        return True

    number = 1
    while attempt(number):
        number += 1
    print(number > 30)
"""


@pytest.mark.parametrize("kind", ["worker", "outbox", "scheduler"])
def test_closing_a_store_in_a_signal_handler_ends_what_is_being_started(kind: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(PROGRAM), kind],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.stdout == "True\n", done.stderr
