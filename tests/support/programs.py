"""Programs: real processes that run a script over a store."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

CONTROL = """
import sys, threading
import alkstore_postgres
print("done", flush=True)
sys.stdin.readline()
"""

PRELUDE = """
import os, signal, sys, threading, time
import alkstore_postgres
from alkstore import StopToken
store = alkstore_postgres.open(sys.argv[1], sys.argv[2], migrate=False)
queue = store.queue("emails")
def say(*words):
    print(*words, flush=True)
"""


class Program:
    """A real process that runs a script over a store.

    Args:
        script: What it runs.
        conninfo: The server.
        schema: The store's schema.
    """

    def __init__(self, script: str, conninfo: str, schema: str) -> None:
        # Newer Pythons warn of every fork of a process with threads: forking it is the test.
        switches = ["-X", "dev", "-W", "ignore:This process:DeprecationWarning"]
        command = [sys.executable, *switches, "-c", script, conninfo, schema]
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=Path(__file__).parents[1] / "postgres",
        )
        assert self._process.stdout is not None
        assert self._process.stderr is not None
        self._out = self._process.stdout
        self._err = self._process.stderr

    def wait_for(self, word: str) -> None:
        """Return when the program has said *word*."""
        line = self._out.readline()
        assert line.strip() == word, line + self._err.read()

    def go_on(self) -> None:
        """Give it the line of input that it waits for."""
        assert self._process.stdin is not None
        self._process.stdin.close()

    @property
    def ended(self) -> bool:
        """Whether it has ended."""
        return self._process.poll() is not None

    def signal(self, number: signal.Signals) -> None:
        """Send a signal."""
        self._process.send_signal(number)

    def end(self, timeout: float = 10.0) -> tuple[int, str, float]:
        """Wait for the end; return the exit status, all that went to stderr, and how long.

        What the system tells that it had no processor for the program, by then, is taken off.
        """
        began, lost = time.monotonic(), self._without_processor()
        self._await_end(timeout)
        took = time.monotonic() - began - (self._without_processor() - lost)
        self._process.wait()
        errors = self._err.read()
        if self._process.stdin is not None:
            self._process.stdin.close()
        self._out.close()
        self._err.close()
        return self._process.returncode, errors, took

    def _await_end(self, timeout: float) -> None:
        """Wait until the program has ended, and leave it as it is, to be looked at."""
        deadline = time.monotonic() + timeout
        how = os.WEXITED | os.WNOHANG | os.WNOWAIT
        while self._process.returncode is None and not os.waitid(os.P_PID, self._process.pid, how):
            if time.monotonic() > deadline:
                raise subprocess.TimeoutExpired(self._process.args, timeout)
            time.sleep(0.002)

    def _without_processor(self) -> float:
        """Return for how many seconds in all its main thread could have run and did not."""
        try:
            told = Path(f"/proc/{self._process.pid}/schedstat").read_text(encoding="ascii")
        except OSError:  # not Linux, or it is gone
            return 0.0
        return int(told.split()[1]) / 1e9

    def kill(self) -> None:
        """Make sure that it is gone."""
        if self._process.poll() is None:
            self._process.kill()
        if not self._out.closed:
            self.end()
